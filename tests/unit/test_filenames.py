"""What is shown of a file's name: the last part, without what can't be seen."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.documents import FILENAME_LIMIT, UNNAMED_FILE, displayable_filename


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("letter.pdf", "letter.pdf"),
        ("Übersicht (2) – final.pdf", "Übersicht (2) – final.pdf"),
        ("請求書.pdf", "請求書.pdf"),
        ("/etc/passwd", "passwd"),
        ("../../letter.pdf", "letter.pdf"),
        ("C:\\Users\\me\\letter.pdf", "letter.pdf"),
        ("a/b\\c/letter.pdf", "letter.pdf"),
        ("  letter.pdf\t", "letter.pdf"),
        ("let\0ter\r\n.pdf", "letter.pdf"),
        ("letter\u202efdp.exe", "letterfdp.exe"),
        ("let\u200bter\ufeff.pdf", "letter.pdf"),
        ("let\ud800ter.pdf", "letter.pdf"),
        ("\x1b[31mred.pdf", "[31mred.pdf"),
    ],
)
def test_the_last_part_is_shown_without_what_can_not_be_seen(sent: str, shown: str) -> None:
    assert displayable_filename(sent) == shown


@pytest.mark.parametrize("sent", ["", " ", "/", "a/", "\\", "\0", "\u202e", "\ud800", "/ \t/\r\n"])
def test_a_file_without_a_visible_name_is_a_document(sent: str) -> None:
    assert displayable_filename(sent) == UNNAMED_FILE == "document"


def test_a_long_name_is_cut() -> None:
    assert displayable_filename("x" * 1000) == "x" * FILENAME_LIMIT


@pytest.mark.threat(56)
@given(sent=st.text())
def test_what_is_shown_is_short_visible_storable_and_no_path(sent: str) -> None:
    shown = displayable_filename(sent)
    assert 1 <= len(shown) <= FILENAME_LIMIT
    assert not set(shown) & {"/", "\\", "\0"}
    assert all(unicodedata.category(character)[0] != "C" for character in shown)
    assert shown.encode().decode() == shown
