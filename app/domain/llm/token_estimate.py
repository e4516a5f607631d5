"""Estimates of a text's tokens without a tokenizer: `estimate_tokens` is rarely too low, `least_tokens` never too high.

Both are measured in docs/decisions/0028. Only Latin prose has as few tokens as a third of its characters.
"""

import re
from math import ceil

PER_TOKEN = 3
"""Latin letters and spaces in one token. English has 4 to 5, other languages in Latin script 3 to 4."""

_LOOSE = re.compile(r"[A-Za-z\s]")
_CLOSE = re.compile(r"[\u00c0-\u052f]")
"""Accented Latin, Greek and Cyrillic letters: two in one token."""

_DENSE = re.compile(r"([^\w\s])\1{0,3}|[^A-Za-z\s\u00c0-\u052f]")
"""Digits, punctuation and all other scripts. In some vocabularies each is a token, but a row of one sign is not."""

_SIGN = r"!-/:-@\[-`{-~"
_WORD = rf"[^\s0-9{_SIGN}]+"
_PIECE = re.compile(rf"[0-9]{{1,3}}|[{_SIGN}]?{_WORD}(?:'{_WORD})*|[{_SIGN}]+")
"""Pieces that no vocabulary in use joins with others: a word with one sign before it, three digits, a row of signs."""

_CROWDED = re.compile(r"[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff]")
"""Chinese, Japanese and Korean characters: no spaces between words, up to four characters in a token."""

SURE = 0.8
"""The share of pieces that is certain. Some vocabularies have a few pairs, such as `U.S.`, as one token."""


def estimate_tokens(text: str) -> int:
    """Return an estimate for planning, rather too high than too low."""
    thirds, halves, ones = (len(found.findall(text)) for found in (_LOOSE, _CLOSE, _DENSE))
    return max(ceil(thirds / PER_TOKEN + halves / 2) + ones, len(_PIECE.findall(text)))


def least_tokens(text: str) -> int:
    """Return a lower bound. A model that reports fewer tokens has not read the whole text."""
    return int(SURE * len(_PIECE.findall(text)) + len(_CROWDED.findall(text)) / 5)
