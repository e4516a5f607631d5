"""A page's text normalised for matching citations.

Case and spaces are ignored; digits and signs must match exactly.
"""

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from app.domain.llm.prompt_injection import instructions_in
from app.domain.pages import Page

LONG_NUMBER = 7
"""Digits of an account or telephone number. Only in such a number may spaces stand anywhere.
Two columns of a table, 1 and 234, are not the number 1234."""

DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−﹣－", "-") | {"’": "'", "‘": "'"})


class WordSpan(NamedTuple):
    """Words of a page, by their indexes. Both ends are included."""

    first: int
    last: int

    def meets(self, other: "WordSpan | None") -> bool:
        return other is not None and self.first <= other.last and other.first <= self.last


class Character(NamedTuple):
    """A character that counts in a comparison."""

    text: str
    glued: bool
    """True if nothing separates it from the character before, not even a comma that is ignored."""


class SearchableText:
    def __init__(self, text: str, *, words: bool = True) -> None:
        """Normalise a page's text. `words` is True if the page has words, which citations may name."""
        self.words = words_of(text)
        self.orders = [*instructions_in(text)]
        """Ranges of characters that address a language model. Nothing in them is found."""
        self.searched = list(self._searched(text))
        self._named = words
        # Arrays, because there is one entry for each character of each searched page.
        self._text = ""
        self._word = array("I")
        self._glued = bytearray()
        self._take(self.searched)

    @classmethod
    def page(cls, page: Page) -> Self:
        return cls(page.text, words=page.confidence is not None)

    def find(self, wanted: str, *, near: WordSpan | None = None) -> WordSpan | None:
        """Return the occurrence, as whole words, that overlaps `near`, or else the first one; None without any."""
        first = None
        for hit in self._hits(SoughtText.of(wanted)):
            if near is None or hit.meets(near):
                return hit
            first = first or hit
        return first

    def quote(self, passage: WordSpan) -> str:
        return " ".join(self.words[passage.first : passage.last + 1])

    def indexes(self, passage: WordSpan) -> tuple[int, ...]:
        """Return indexes in the page's list of words; empty where it has no words."""
        return tuple(range(passage.first, passage.last + 1)) if self._named else ()

    def _take(self, words: Iterable[str]) -> None:
        texts = []
        for index, word in enumerate(words):
            for sign in counted_characters(word):
                texts.append(sign.text)
                self._word.append(index)
                self._glued.append(sign.glued)
        self._text = "".join(texts)

    def _searched(self, text: str) -> Iterator[str]:
        """Yield the words, each replaced by an empty text where it addresses a language model."""
        at = 0
        for word in self.words:
            at = text.index(word, at)
            yield "" if any(start <= at < end for start, end in self.orders) else word
            at += len(word)

    def _hits(self, wanted: "SoughtText") -> Iterator[WordSpan]:
        length = len(wanted.text)
        start = self._text.find(wanted.text) if wanted.text else -1
        while start >= 0:
            if self._stands_alone(start, start + length) and self._parted_alike(start, wanted):
                yield WordSpan(self._word[start], self._word[start + length - 1])
            start = self._text.find(wanted.text, start + 1)

    def _stands_alone(self, start: int, end: int) -> bool:
        return not self._runs_on(start) and not (end < len(self._text) and self._runs_on(end))

    def _runs_on(self, at: int) -> bool:
        """Return True if the characters before and at this position belong to one word."""
        if at == 0 or not self._glued[at]:
            return False
        before, here = self._text[at - 1], self._text[at]
        return not (_is_symbol(before) or _is_symbol(here) or (_is_unspaced(before) and _is_unspaced(here)))

    def _parted_alike(self, start: int, wanted: "SoughtText") -> bool:
        if wanted.may_be_parted_anywhere:
            return True
        return all(
            (self._word[start + at] != self._word[start + at - 1]) == (at in wanted.parted)
            for at in range(1, len(wanted.text))
            if wanted.text[at - 1].isdigit() and wanted.text[at].isdigit()
        )


class SoughtText(NamedTuple):
    text: str
    parted: frozenset[int]
    """Indexes of characters that follow a space."""

    @classmethod
    def of(cls, wanted: str) -> "SoughtText":
        text, parted = "", set()
        for word in wanted.split():
            parted.add(len(text))
            text += "".join(sign.text for sign in counted_characters(word))
        return cls(text, frozenset(parted))

    @property
    def may_be_parted_anywhere(self) -> bool:
        digits = sum(map(str.isdigit, self.text))
        plain = all(character.isdigit() or character == "+" for character in self.text)
        return any(map(str.isalpha, self.text)) or (plain and digits >= LONG_NUMBER)


def words_of(text: str) -> list[str]:
    """Split a text that `text_of` has joined into its words, with the same indexes."""
    return re.split("\n\n|[ \n]", text) if text else []


def counted_characters(word: str) -> Iterator[Character]:
    if word.isascii() and word.isalnum():
        # Most words are plain. The general case below takes ten times as long.
        yield from (Character(text, at > 0) for at, text in enumerate(word.lower()))
        return
    plain = unicodedata.normalize("NFKC", word).translate(DASHES)
    glued = False
    for at, character in enumerate(plain):
        counts = _counts(plain, at)
        if counts:
            for text in character.casefold():
                yield Character(text, glued)
                glued = True
        else:
            glued = False


def _counts(word: str, at: int) -> bool:
    character = word[at]
    if character.isalnum() or _is_symbol(character) or unicodedata.category(character).startswith("M"):
        return True
    before, after = word[at - 1 : at], word[at + 1 : at + 2]
    if character == "-" and not before.isalnum():
        return after.isdigit() or _is_symbol(after)
    # Between digits every mark matters: 12.50, 1,250 and 12:50 differ.
    return before.isdigit() and after.isdigit()


def _is_symbol(character: str) -> bool:
    return character in {"%", "‰", "+"} or (character != "" and unicodedata.category(character) == "Sc")


def _is_unspaced(character: str) -> bool:
    """Return True for scripts without spaces between words."""
    return "\u0e00" <= character <= "\u0eff" or "\u1000" <= character <= "\u109f" or character >= "\u2e80"
