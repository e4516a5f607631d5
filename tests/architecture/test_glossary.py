"""The glossary defines each word once."""

import re
from collections import Counter
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"

HEADWORD = re.compile(r"\*\*([^*\n]+?)\.?\*\*(?=[.:]|(?<=\.\*\*))|^#{3,} +(.+?) *$", re.MULTILINE)
"""`**Job.** …` or `**Piece**: …`, or a heading of the third level. Bold words within a sentence define nothing."""


def headwords(text: str) -> list[str]:
    return [(bold or heading).casefold() for bold, heading in HEADWORD.findall(text)]


def repeated(text: str) -> list[str]:
    return [word for word, count in Counter(headwords(text)).items() if count > 1]


def test_each_headword_of_the_glossary_stands_once() -> None:
    assert repeated(GLOSSARY.read_text()) == []


def test_the_glossary_has_headwords() -> None:
    assert {"job", "lease", "doorbell"} <= set(headwords(GLOSSARY.read_text()))


def test_a_word_that_is_defined_twice_is_reported() -> None:
    text = "**Job.** A row.\n\n**Part.** Some. **Piece**: less, and **never** more.\n\n**job**: again.\n\n### Part\n"
    assert headwords(text) == ["job", "part", "piece", "job", "part"]
    assert repeated(text) == ["job", "part"]
