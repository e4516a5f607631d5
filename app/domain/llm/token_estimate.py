"""How many tokens a text is, without the model's tokenizer: one figure rarely too low, one never too high.

Both are measured in docs/decisions/0028: nothing but Latin prose has so few tokens as a third of its characters.
"""

import re
from math import ceil

PER_TOKEN = 3
"""Latin letters and blanks for one token. English has 4 to 5, other languages in Latin script 3 to 4."""

_LOOSE = re.compile(r"[A-Za-z\s]")
_CLOSE = re.compile(r"[\u00c0-\u052f]")
"""Accented Latin, Greek, Cyrillic: two for one token."""

_DENSE = re.compile(r"([^\w\s])\1{0,3}|[^A-Za-z\s\u00c0-\u052f]")
"""Digits, punctuation and all other scripts: in some vocabularies each is a token. Rows of one sign are not."""

_SIGN = r"!-/:-@\[-`{-~"
_WORD = rf"[^\s0-9{_SIGN}]+"
_PIECE = re.compile(rf"[0-9]{{1,3}}|[{_SIGN}]?{_WORD}(?:'{_WORD})*|[{_SIGN}]+")
"""What no vocabulary in use joins with its neighbours: a word with one sign before it, three digits, a row of signs."""

_CROWDED = re.compile(r"[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff]")
"""Chinese, Japanese, Korean: no blanks between words, up to four characters in a token."""

SURE = 0.8
"""Of the pieces: some vocabularies know a few pairs, such as `U.S.`, as one."""


def estimate(text: str) -> int:
    """For planning: rather too many than too few."""
    thirds, halves, ones = (len(found.findall(text)) for found in (_LOOSE, _CLOSE, _DENSE))
    return max(ceil(thirds / PER_TOKEN + halves / 2) + ones, len(_PIECE.findall(text)))


def at_least(text: str) -> int:
    """A model that says it has read fewer has not read all of the text."""
    return int(SURE * len(_PIECE.findall(text)) + len(_CROWDED.findall(text)) / 5)
