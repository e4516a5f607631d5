"""Scores of a page that was read, by measures that are the same for every reader.

Both texts are normalised first: Unicode NFKC, plain quotes and dashes, one space for each run of white space.
Punctuation and case count. But if the truth has no small letters, as SROIE's receipts, it holds no record of the case,
and both sides are put in capitals.

word F1         words are separated by white space and compared as a bag: order does not count
bare F1         the same with runs of letters and digits, without punctuation, because some truths set spaces around
                punctuation where the page has none
cer             edits (Levenshtein) from the text as read to the truth, per character of the truth
cer, any order  the same word by word, each with the nearest of the other side wherever it stands; spaces don't count
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

_BARE = re.compile(r"[^\W_]+")
_PLAIN = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "‐": "-", "‑": "-", "–": "-", "—": "-", "−": "-"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    word_f1: float
    bare_f1: float
    cer: float
    cer_any_order: float


def score(read: str, truth: str) -> Score:
    """The scores as shares of 1. An empty page that is read as empty is perfect."""
    read, truth = normalised(read), normalised(truth)
    if truth == truth.upper():
        read = read.upper()
    words, wanted = read.split(), truth.split()
    text, target = " ".join(words), " ".join(wanted)
    return Score(
        word_f1=_f1(words, wanted),
        bare_f1=_f1(_BARE.findall(read), _BARE.findall(truth)),
        cer=distance(text, target) / max(len(target), 1),
        cer_any_order=_unordered(words, wanted) / max(sum(map(len, wanted)), 1),
    )


def normalised(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_PLAIN))


def distance(a: str, b: str) -> int:
    """The Levenshtein distance by Hyyrö's bit vectors (2003): a column of the table is one long integer."""
    if not a or not b:
        return len(a) + len(b)
    places: dict[str, int] = {}
    for index, character in enumerate(a):
        places[character] = places.get(character, 0) | 1 << index
    every, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    plus, minus, edits = every, 0, len(a)
    for character in b:
        match = places.get(character, 0)
        diagonal = (((match & plus) + plus) ^ plus) | match | minus
        up, down = minus | (~(diagonal | plus) & every), plus & diagonal
        edits += bool(up & last) - bool(down & last)
        up, down = (up << 1 | 1) & every, down << 1 & every
        plus, minus = down | (~(diagonal | up) & every), up & diagonal
    return edits


def _f1(words: list[str], wanted: list[str]) -> float:
    common = (Counter(words) & Counter(wanted)).total()
    return 2 * common / (len(words) + len(wanted)) if words or wanted else 1.0


def _unordered(words: list[str], wanted: list[str]) -> int:
    """The errors without regard to order.

    Exact pairs first, then the nearest; an unpaired word costs all its letters.
    """
    surplus = list((Counter(words) - Counter(wanted)).elements())
    missing = list((Counter(wanted) - Counter(words)).elements())
    pairs = sorted((distance(a, b), i, j) for i, a in enumerate(surplus) for j, b in enumerate(missing))
    taken_a: set[int] = set()
    taken_b: set[int] = set()
    edits = 0
    for cost, i, j in pairs:
        # A word in which every letter differs does not count as misread.
        if i in taken_a or j in taken_b or cost >= max(len(surplus[i]), len(missing[j])):
            continue
        taken_a.add(i)
        taken_b.add(j)
        edits += cost
    left = [a for i, a in enumerate(surplus) if i not in taken_a] + [
        b for j, b in enumerate(missing) if j not in taken_b
    ]
    return edits + sum(map(len, left))
