"""Numbers in text: 1,234.50 and 1.234,50 and 1 234,50 and (1'234.50) and EUR 1234.5."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from decimal import Decimal

from app.domain.llm.page_text import DASHES, WordSpan

MOST_GROUPS = 5
"""Groups of three digits separated by spaces: enough for a quadrillion."""

AROUND = re.compile(r"^(?:[A-Za-z]{1,3})?(?P<number>[^A-Za-z]+?)(?:[A-Za-z]{1,4})?$")
"""A currency before the number; a currency or a unit after it."""

SHAPE = re.compile(r"(?!0\d)\d+(?:[.,']\d+)*|[.,]\d+")
"""007 is a name, not a number."""

LEADING_GROUP = re.compile(r"\D*\d{1,3}")
GROUP = re.compile(r"\d{3}(?:[.,]\d+)?[^\d.,]*")
DIGIT = re.compile(r"\d")


def numbers_in(words: Sequence[str]) -> Iterator[tuple[WordSpan, frozenset[Decimal]]]:
    """Yield each position of a possible number, with the values that it may mean."""
    for first, word in enumerate(words):
        if not DIGIT.search(word):
            continue
        for last in range(first, min(first + MOST_GROUPS, len(words))):
            if last > first and not _goes_on(words, first, last):
                break
            meant = number_meanings("".join(words[first : last + 1]))
            if meant:
                yield WordSpan(first, last), _signed(words, first, meant)


def number_meanings(text: str) -> frozenset[Decimal]:
    """Return the values that a text may mean if it is nothing but a number; empty otherwise."""
    plain = unicodedata.normalize("NFKC", text).translate(DASHES)
    within = plain.strip("[]{}*\"';:,!?|").rstrip(".")
    negative = within.startswith("(") and within.endswith(")")
    bare = "".join(character for character in within.strip("()") if unicodedata.category(character) != "Sc")
    percent = bare.endswith("%")
    around = AROUND.match(bare.rstrip("%").strip())
    if around is None:
        return frozenset()
    number = around["number"].strip(":.") if around["number"].startswith(":") else around["number"]
    negative = negative or number.startswith("-") or number.endswith("-")
    meant = _meanings(number.removeprefix("-").removeprefix("+").removesuffix("-").rstrip(".,"))
    meant |= {value / 100 for value in meant} if percent else set()
    return frozenset(-value if negative else value for value in meant)


def _meanings(number: str) -> set[Decimal]:
    if not SHAPE.fullmatch(number):
        return set()
    marks = [character for character in number if not character.isdigit()]
    if not marks:
        return {Decimal(number)}
    found = set()
    whole, _, fraction = number.rpartition(marks[-1])
    # The last mark may be the decimal point if it occurs only once and is not an apostrophe.
    if marks[-1] != "'" and marks.count(marks[-1]) == 1 and _is_grouped(whole):
        found.add(Decimal(f"{_digits(whole) or '0'}.{fraction}"))
    if len(set(marks)) == 1 and _is_grouped(number):
        found.add(Decimal(_digits(number)))
    return found


def _is_grouped(whole: str) -> bool:
    """Return True for 1,234,567 and 12,34,567 and 1234."""
    groups = re.split(r"[.,']", whole)
    between = all(len(group) in {2, 3} for group in groups[1:-1])
    return len(groups) == 1 or (1 <= len(groups[0]) <= len("123") and between and len(groups[-1]) == len("123"))


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _goes_on(words: Sequence[str], first: int, last: int) -> bool:
    """Return True if spaces separate thousands here: 1 234 567,50."""
    opens = last != first + 1 or LEADING_GROUP.fullmatch(words[first])
    return bool(opens) and GROUP.fullmatch(words[last]) is not None


def _signed(words: Sequence[str], first: int, meant: frozenset[Decimal]) -> frozenset[Decimal]:
    """Add negative values where a separate dash precedes the number, because it may be a sign or a dash."""
    separate = first > 0 and words[first - 1].translate(DASHES) == "-"
    return meant | {-value for value in meant} if separate else meant
