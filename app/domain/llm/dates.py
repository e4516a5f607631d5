"""Dates in text, recognised by their numbers or by the name of the month in seven languages."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from itertools import permutations
from typing import NamedTuple

from app.domain.llm.page_text import DASHES, WordSpan

CENTURY_TURNS = 70
"""The first two-digit year of the 1900s: 69 is 2069, 70 is 1970 (POSIX)."""

MONTHS = [
    "january jan januar jänner janvier janv enero ene gennaio gen janeiro januari",
    "february feb februar février févr fév febrero febbraio fevereiro fev februari",
    "march mar märz mär mars marzo março maart mrt",
    "april apr avril avr abril abr aprile",
    "may mai mayo maggio mag maio mei",
    "june jun juni juin junio giugno giu junho",
    "july jul juli juillet juil julio luglio lug julho",
    "august aug août aout agosto ago augustus",
    "september sep sept septembre septiembre settembre set setembro",
    "october oct oktober okt octobre octubre ottobre ott outubro out",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre déc diciembre dic dicembre dezembro",
]
MONTH_OF = {name: number for number, names in enumerate(MONTHS, 1) for name in names.split()}
FILLERS = frozenset({"of", "de", "del", "di", "do", "den", "der", "the", "st", "nd", "rd", "th", "er", "e", "o"})

NUMERIC = re.compile(r"(\d{1,4})([./-])\s*(\d{1,2})\2\s*(\d{1,4})(?:T[\d:.,+\-Z]*)?")
COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})")
DATE_TOKEN = re.compile(r"\d+|[^\W\d_]+")


class DatePart(NamedTuple):
    text: str
    word: int


def dates_in(words: Sequence[str]) -> Iterator[tuple[WordSpan, frozenset[date]]]:
    """Yield each position of a date, with the days that it may mean."""
    plain = [unicodedata.normalize("NFKC", word).translate(DASHES).strip("()[],;:") for word in words]
    for first, word in enumerate(plain):
        if not word[:1].isdigit():
            continue
        for last in range(first, min(first + 3, len(plain))):
            if meant := _numeric("".join(plain[first : last + 1]).rstrip(".")):
                yield WordSpan(first, last), meant
    yield from _named(plain)


def date_of(text: str) -> date | None:
    """Return the one day that the whole text means; None where it may be two, or where the text is more than a date."""
    words = text.split()
    whole = WordSpan(0, len(words) - 1)
    meant = {day for place, days in dates_in(words) if place == whole for day in days}
    return meant.pop() if len(meant) == 1 else None


def _numeric(text: str) -> frozenset[date]:
    if found := COMPACT.fullmatch(text):
        return _days([found.groups()])
    if not (found := NUMERIC.fullmatch(text)):
        return frozenset()
    first, mark, second, third = found.groups()
    if len(first) == len("2026"):
        return _days([(first, second, third)])
    if mark == ".":
        return _days([(third, second, first)])
    return _days([(third, second, first), (third, first, second)])


def _named(words: Sequence[str]) -> Iterator[tuple[WordSpan, frozenset[date]]]:
    pieces = [
        DatePart(found[0].casefold(), index) for index, word in enumerate(words) for found in DATE_TOKEN.finditer(word)
    ]
    pieces = [piece for piece in pieces if piece.text not in FILLERS]
    for at, piece in enumerate(pieces):
        month = MONTH_OF.get(piece.text)
        if month is None:
            continue
        # 5 March 2026, March 5, 2026, 2026 March 5
        for start in (at - 1, at, at - 2):
            around = pieces[max(start, 0) : start + 3]
            numbers = [other.text for other in around if other is not piece and other.text.isdigit()]
            if start >= 0 and len(numbers) == 2 and piece in around:  # noqa: PLR2004 - the day and the year
                meant = _days((year, str(month), day) for day, year in permutations(numbers))
                if meant:
                    yield WordSpan(around[0].word, around[-1].word), meant


def _days(candidates: Iterable[Sequence[str]]) -> frozenset[date]:
    found = set()
    for year, month, day in candidates:
        if len(year) in {2, 4} and len(day) <= 2:  # noqa: PLR2004 - digits
            with suppress(ValueError):
                found.add(date(_full(year), int(month), int(day)))
    return frozenset(found)


def _full(year: str) -> int:
    number = int(year)
    if len(year) > len("26"):
        return number
    return number + (2000 if number < CENTURY_TURNS else 1900)
