"""Plain text, and where text that runs on is cut into pages."""

import pytest

from app.domain.errors import DocumentFault
from app.domain.filetypes import types
from app.ports.reading import Mode
from app.reading.office.pagination import PAGE, PageWriter
from tests.support.reading import text_file, texts_of
from tests.support.sample_documents import SENTENCE


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Grüße aus Köln: schöne Straße, Größe, Übung und Ärger.", "utf-8"),
        ("Grüße aus Köln", "utf-8-sig"),
        ("Grüße aus Köln: schöne Straße, Größe, Übung und Ärger.", "cp1252"),
        ("L'été dernier, le garçon était déjà à l'hôtel.", "latin-1"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "cp1250"),
        ("Привет, мир. Это обычный русский текст для проверки.", "cp1251"),
        ("これは日本語の文章です。文字コードの判定を確かめます。", "shift_jis"),
        ("这是一个用来检查编码的中文句子，应该能够被正确地识别出来。", "gb18030"),
        ("Grüße aus Köln", "utf-16"),
        ("Grüße aus Köln", "utf-16-le"),
        ("Grüße aus Köln", "utf-16-be"),
        ("Grüße aus Köln", "utf-32"),
    ],
)
def test_text_is_read_in_the_character_set_that_it_has(text: str, encoding: str) -> None:
    assert texts_of(text.encode(encoding)) == [text]


def test_the_character_set_is_sought_where_the_text_is_not_ascii() -> None:
    late = b"plain ascii\n" * 20_000 + "Grüße aus Köln: schöne Straße, Größe, Übung, Ärger.".encode("cp1252") * 20
    assert texts_of(late)[-1].endswith("Größe, Übung, Ärger.")


def test_zeros_and_halves_of_characters_are_dropped() -> None:
    content = f"a\0b\ud83d {SENTENCE}".encode("utf-16", "surrogatepass")
    [text] = texts_of(content)
    assert text.replace("\ufffd", "") == f"ab {SENTENCE}"
    assert text.encode()


def test_lines_end_alike_whatever_system_wrote_them() -> None:
    assert texts_of(b"a\r\nb\rc\nd") == ["a\nb\nc\nd"]
    block = b"x" * (1024 * 1024 - 1)
    assert "\n\n" not in "".join(texts_of(block + b"\r\ny"))


def test_a_form_feed_ends_a_page_and_makes_none_at_the_end() -> None:
    assert texts_of(b"one\n\ftwo\f\ffour\f\n") == ["one", "two", "", "four"]


def test_blank_text_is_one_blank_page() -> None:
    assert texts_of(b"\n \n") == [""]


@pytest.mark.parametrize("separator", ["\n\n", "\n", " "])
def test_a_long_text_is_cut_at_the_best_place_before_the_limit(separator: str) -> None:
    parts = [f"{number:04} word" + "." * 90 for number in range(1000)]
    pages = texts_of(separator.join(parts).encode())
    assert all(PAGE / 2 < len(page) <= PAGE for page in pages[:-1])
    assert all(page.startswith(tuple("0123456789")) for page in pages)
    assert separator.join(pages) == separator.join(parts)


def test_a_text_without_any_place_to_cut_is_cut_all_the_same() -> None:
    pages = texts_of(b"x" * (PAGE * 2 + 5))
    assert [len(page) for page in pages] == [PAGE, PAGE, 5]


def test_paragraphs_rather_than_lines_are_kept_together() -> None:
    paragraph = "line\n" * 300
    pages = texts_of(f"{paragraph}\n".encode() * 10)
    assert all(page.count("\n\n") == page.count("line\n" * 299) - 1 for page in pages)


def test_reading_stops_at_the_page_that_is_one_too_many() -> None:
    pages = PageWriter(most=3)
    pages.write("x" * PAGE * 3)
    with pytest.raises(DocumentFault) as fault:
        pages.write("x" * PAGE * 2)
    assert fault.value.code == "too_many_pages"
    assert len(text_file(b"x" * PAGE * 3, max_pages=3).read(3, mode=Mode.AUTO).text) == PAGE


def test_a_beginning_like_text_does_not_make_a_text() -> None:
    with pytest.raises(DocumentFault) as fault:
        text_file(b"#!/bin/sh\n" * 200 + bytes(range(256)) * 20_000, media_type=types.TEXT)
    assert fault.value.code == "corrupt"
