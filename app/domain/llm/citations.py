"""Citations of values: Daira's own search locates a value on a page, whatever source the model names."""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from typing_extensions import override

from app.domain.llm.dates import date_of, dates_in
from app.domain.llm.numbers import number_meanings, numbers_in
from app.domain.llm.page_text import SearchableText, WordSpan
from app.domain.pages import Page

DISTINCTIVE = 3
"""The fewest letters and digits of a quote that are not on a page by chance. A 0 is on any page."""

BARE_NUMBER = re.compile(r"[\d.,'’ +()-]+")

Meaning = TypeVar("Meaning", bound=Hashable)


class SearchedPage(SearchableText):
    """A page that is searched for many values. Its numbers and days are read once."""

    @cached_property
    def figures(self) -> Mapping[Decimal, list[WordSpan]]:
        return _by_meaning(numbers_in(self.searched))

    @cached_property
    def days(self) -> Mapping[date, list[WordSpan]]:
        return _by_meaning(dates_in(self.searched))


class CitationPages(Mapping[int, SearchedPage]):
    """Pages by number, each made ready on first use. A document has thousands of pages; an answer names a few."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._pages = {page.number: page for page in pages}
        self._ready: dict[int, SearchedPage] = {}

    @override
    def __getitem__(self, number: int) -> SearchedPage:
        if number not in self._ready:
            self._ready[number] = SearchedPage.page(self._pages[number])
        return self._ready[number]

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(self._pages)

    @override
    def __len__(self) -> int:
        return len(self._pages)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedSource:
    """The source that a model names for a value."""

    page: int
    quote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    page: int | None
    """None where no source is named, or where the named page was not shown."""
    words: tuple[int, ...] = ()
    """Indexes, from 0, in the page's words. Empty where the page has no words, or where nothing was found."""
    quote: str | None = None
    """The page's own words, never the model's."""
    verified: bool = False
    """True if the value itself is on the page."""

    def to_json(self) -> dict[str, object]:
        return {"page": self.page, "words": list(self.words), "quote": self.quote, "verified": self.verified}


def cite(value: object, source: QuotedSource | None, pages: Mapping[int, SearchedPage]) -> Citation:
    """Cite a value from its claimed source.

    A value that is not on the page is not verified, even where the quote is.
    """
    page = pages.get(source.page) if source is not None else None
    if source is None or page is None:
        return Citation(page=None)
    quoted = page.find(source.quote)
    found = locate(value, page, near=quoted)
    shown = found or quoted
    if shown is None:
        return Citation(page=source.page)
    return Citation(page=source.page, words=page.indexes(shown), quote=page.quote(shown), verified=found is not None)


def search(value: object, pages: Mapping[int, SearchedPage]) -> Citation:
    """Cite a value without a claimed source, if exactly one page has it and its quote is long enough."""
    found = [(number, page, place) for number, page in pages.items() if (place := locate(value, page)) is not None]
    if len(found) != 1:
        return Citation(page=None)
    ((number, page, place),) = found
    quote = page.quote(place)
    if sum(map(str.isalnum, quote)) < DISTINCTIVE:
        return Citation(page=None)
    return Citation(page=number, words=page.indexes(place), quote=quote, verified=True)


def locate(value: object, page: SearchedPage, *, near: WordSpan | None = None) -> WordSpan | None:
    """Return the position of a value on a page; None for yes or no, which is a judgement that no text contains."""
    match value:
        case bool():
            return None
        case int() | float():
            return _nearest(page.figures.get(Decimal(repr(value))), near)
        case str():
            return page.find(value, near=near) or _nearest(_meant(value, page), near)
        case _:
            return None


def _meant(value: str, page: SearchedPage) -> list[WordSpan] | None:
    """Return the positions of the same number or the same day in another notation."""
    # Only numbers without a currency or a unit, because 12 € and 12 $ differ.
    numbers = number_meanings(value) if BARE_NUMBER.fullmatch(value) else frozenset()
    if len(numbers) == 1:
        return page.figures.get(min(numbers))
    day = date_of(value)
    return page.days.get(day) if day is not None else None


def _nearest(places: list[WordSpan] | None, near: WordSpan | None) -> WordSpan | None:
    return next((place for place in places or () if place.meets(near)), places[0] if places else None)


def _by_meaning(found: Iterable[tuple[WordSpan, frozenset[Meaning]]]) -> dict[Meaning, list[WordSpan]]:
    """Group positions by meaning. Positions with a single meaning come first, then those of fewer words."""
    places: dict[Meaning, list[WordSpan]] = defaultdict(list)
    for place, meanings in sorted(found, key=lambda one: (len(one[1]), one[0].last - one[0].first, one[0].first)):
        for meaning in meanings:
            places[meaning].append(place)
    return dict(places)
