"""BM25 ranking of pages by a question. It does not use the store's search, so that every store ranks alike."""

import math
import re
from collections import Counter
from collections.abc import Mapping

# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
SATURATION = 1.2
LENGTH_COUNTS = 0.75

STEM = 5
"""Letters of a longer word that count as a word too, so that "invoices" finds an invoice in any language."""

TERM = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u2e80-\U0003ffff]+|\w+")
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u2e80-\U0003ffff]")


def rank(question: str, texts: Mapping[int, str]) -> list[int]:
    """Return the numbers of the texts, the most relevant first. Texts without a match come last, in their own order."""
    terms = set(terms_of(question))
    counts = {number: Counter(terms_of(text)) for number, text in texts.items()}
    mean = sum(map(Counter.total, counts.values())) / len(counts) if counts else 0
    weights = {term: _weight(len(counts), sum(term in count for count in counts.values())) for term in terms}

    def score(number: int) -> float:
        count = counts[number]
        length = 1 - LENGTH_COUNTS + LENGTH_COUNTS * count.total() / (mean or 1)
        return sum(
            weights[term] * count[term] * (SATURATION + 1) / (count[term] + SATURATION * length)
            for term in terms & count.keys()
        )

    return sorted(counts, key=lambda number: (-score(number), number))


def terms_of(text: str) -> list[str]:
    terms: list[str] = []
    for word in TERM.findall(text.casefold()):
        if UNSPACED.match(word):
            terms += [word[at : at + 2] for at in range(max(len(word) - 1, 1))]
        else:
            terms += [word, f"{word[:STEM]}*"] if len(word) > STEM else [word]
    return terms


def _weight(texts: int, having: int) -> float:
    return math.log(1 + (texts - having + 0.5) / (having + 0.5))
