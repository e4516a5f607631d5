"""The type of a file is told from its first bytes alone."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from app.domain.media import HEAD, PDF, sniff


@pytest.mark.parametrize(
    ("encoder", "media_type"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("TIFF", "image/tiff"),
        ("GIF", "image/gif"),
        ("BMP", "image/bmp"),
        ("WEBP", "image/webp"),
        ("PDF", "application/pdf"),
    ],
)
def test_every_supported_type_is_told_as_encoders_write_it(encoder: str, media_type: str) -> None:
    written = io.BytesIO()
    Image.new("RGB", (8, 8)).save(written, format=encoder)
    assert sniff(written.getvalue()[:HEAD]) == media_type


@pytest.mark.parametrize("head", [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"])
def test_tiff_is_told_in_both_byte_orders_and_both_sizes(head: bytes) -> None:
    assert sniff(head + b"....") == "image/tiff"


@pytest.mark.threat(55)
@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"hello",
        b"PK\x03\x04",
        b"MZ\x90\0",
        b"\x7fELF",
        b"<html>",
        b"<svg xmlns=",
        b"{\\rtf1",
        b"%!PS-Adobe-3.0",
        b"RIFF....WAVE",
        b"RIFF",
        b"\x89PNG",
        b"GIF90a",
        b"%PDF",
        b" \x89PNG\r\n\x1a\n",
    ],
)
def test_anything_else_is_none(head: bytes) -> None:
    assert sniff(head) is None


def test_a_pdf_may_have_junk_before_its_header_but_not_beyond_the_head() -> None:
    assert sniff(b"x" * (HEAD - 5) + b"%PDF-1.7") == PDF
    assert sniff(b"x" * (HEAD - 4) + b"%PDF-1.7") is None
    assert sniff(b"x" * HEAD * 10 + b"%PDF-1.7") is None


def test_an_image_that_mentions_a_pdf_is_an_image() -> None:
    assert sniff(b"\x89PNG\r\n\x1a\n%PDF-1.7") == "image/png"


@given(head=st.binary(max_size=64))
def test_any_bytes_get_an_answer(head: bytes) -> None:
    assert sniff(head) in {None, "image/bmp", "image/gif", "image/jpeg", "image/tiff", "image/png", "image/webp", PDF}
