"""Where a value stands: found by our own search, whoever says that it is there."""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

from typing_extensions import override

from app.domain.llm.dates import day_of, days_in
from app.domain.llm.numbers import figures_in, readings
from app.domain.llm.page_text import SearchableText, WordSpan
from app.domain.pages import Page

TELLING = 3
"""Letters and digits of what stands on a page for a reason: a 0 stands on any, by chance."""

BARE_NUMBER = re.compile(r"[\d.,'’ +()-]+")

Meaning = TypeVar("Meaning", bound=Hashable)


class SearchedPage(SearchableText):
    """A page in which many values are looked for: its numbers and days are read once."""

    @cached_property
    def figures(self) -> Mapping[Decimal, list[WordSpan]]:
        return _by_meaning(figures_in(self.heard))

    @cached_property
    def days(self) -> Mapping[date, list[WordSpan]]:
        return _by_meaning(days_in(self.heard))


class CitationPages(Mapping[int, SearchedPage]):
    """Each made ready when it is first looked at: a document has thousands, an answer names a few."""

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
class ClaimedSource:
    """Where a model says that it has something from."""

    page: int
    quote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    page: int | None
    """None: nobody says where, or that page was not shown."""
    words: tuple[int, ...] = ()
    """Indexes, from 0, in the page's words; empty where the page has none, or nothing was found."""
    quote: str | None = None
    """The page's own words, never the model's."""
    verified: bool = False
    """The value itself stands there."""

    def to_json(self) -> dict[str, object]:
        return {"page": self.page, "words": list(self.words), "quote": self.quote, "verified": self.verified}


def cite(value: object, source: ClaimedSource | None, pages: Mapping[int, SearchedPage]) -> Citation:
    """A value that is not on the page is not verified, even where the quote is."""
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
    """Of what nobody says where it stands: where it does, if that is plain."""
    found = [(number, page, place) for number, page in pages.items() if (place := locate(value, page)) is not None]
    if len(found) != 1:
        return Citation(page=None)
    ((number, page, place),) = found
    quote = page.quote(place)
    if sum(map(str.isalnum, quote)) < TELLING:
        return Citation(page=None)
    return Citation(page=number, words=page.indexes(place), quote=quote, verified=True)


def locate(value: object, page: SearchedPage, *, near: WordSpan | None = None) -> WordSpan | None:
    """A yes or no is a judgement, which stands nowhere."""
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
    """Where the same number, or the same day, is written in another way."""
    # Not one with a currency or a unit: 12 € and 12 $ are two things.
    numbers = readings(value) if BARE_NUMBER.fullmatch(value) else frozenset()
    if len(numbers) == 1:
        return page.figures.get(min(numbers))
    day = day_of(value)
    return page.days.get(day) if day is not None else None


def _nearest(places: list[WordSpan] | None, near: WordSpan | None) -> WordSpan | None:
    return next((place for place in places or () if place.meets(near)), places[0] if places else None)


def _by_meaning(found: Iterable[tuple[WordSpan, frozenset[Meaning]]]) -> dict[Meaning, list[WordSpan]]:
    """Places that mean but one thing come first, then those of fewer words."""
    places: dict[Meaning, list[WordSpan]] = defaultdict(list)
    for place, meanings in sorted(found, key=lambda one: (len(one[1]), one[0].last - one[0].first, one[0].first)):
        for meaning in meanings:
            places[meaning].append(place)
    return dict(places)
