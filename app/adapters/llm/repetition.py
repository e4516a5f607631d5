"""A model that runs in circles is noticed while it writes: it would go on to its limit, and be paid for it."""

TIMES = 8
LEAST = 2_000
"""Characters that are a repetition: a table's row of dashes, or twenty equal lines of an invoice, are none yet."""

PERIOD = 1_000
"""Characters of the longest text that is noticed when repeated."""

EVERY = 1_000
"""Characters between two looks: a look takes about 1.5 ms."""


class RepetitionDetector:
    def __init__(self) -> None:
        self._tail = ""
        self._unseen = 0

    def closed_by(self, text: str) -> bool:
        """True when the text so far ends with one passage, over and over."""
        self._tail = (self._tail + text)[-TIMES * PERIOD :]
        self._unseen += len(text)
        if self._unseen < EVERY:
            return False
        self._unseen = 0
        return repeats(self._tail)


def repeats(text: str) -> bool:
    """True when the text ends with a passage of at most PERIOD characters, TIMES over and LEAST characters long.

    Read from its end, by the prefix function of Knuth, Morris and Pratt: the shortest period of each beginning.
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
