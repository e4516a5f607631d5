"""Detects a model that repeats itself while it writes. It would go on to its limit, and those tokens cost money."""

TIMES = 8
LEAST = 2_000
"""Characters of a repetition, at least. A table's row of dashes, or twenty equal lines of an invoice, are shorter."""

PERIOD = 1_000
"""Characters of the longest passage whose repetition is noticed."""

EVERY = 1_000
"""Characters between two checks; a check takes about 1.5 ms."""


class RepetitionDetector:
    def __init__(self) -> None:
        self._tail = ""
        self._unseen = 0

    def closed_by(self, text: str) -> bool:
        """Add text. Returns True if all of the text so far ends with one passage repeated over and over."""
        self._tail = (self._tail + text)[-TIMES * PERIOD :]
        self._unseen += len(text)
        if self._unseen < EVERY:
            return False
        self._unseen = 0
        return repeats(self._tail)


def repeats(text: str) -> bool:
    """Return True if the text ends with a passage of at most PERIOD characters, TIMES over and at least LEAST long.

    The text is read from its end, by the prefix function of Knuth, Morris and Pratt: the shortest period of each
    beginning.
    """
    reverse = text[::-1]
    borders = [0] * len(reverse)
    for end in range(1, len(reverse)):
        border = borders[end - 1]
        while border and reverse[end] != reverse[border]:
            border = borders[border - 1]
        borders[end] = border = border + (reverse[end] == reverse[border])
        length = end + 1
        if length >= LEAST and length >= TIMES * (length - border):
            return True
    return False
