"""A wall clock that is wrong, and steps, for some of the workers: by libfaketime. Their monotonic one is left alone."""

import random
from collections.abc import Mapping
from pathlib import Path

from tests.support.faketime import library

OFFSETS = ("+600s", "-600s", "+86400s", "-3s", "+3s")


class Clocks:
    def __init__(self, folder: Path, dice: random.Random) -> None:
        self._library = library()
        self._stamp = folder / "clock"
        self._dice = dice
        self.step()

    def wrong(self) -> Mapping[str, str]:
        """The environment of a process that goes by this clock."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_TIMESTAMP_FILE": str(self._stamp),
            "FAKETIME_CACHE_DURATION": "1",
        }

    def step(self) -> None:
        """Whoever goes by this clock finds itself at another time within a second."""
        self._stamp.write_text(self._dice.choice(OFFSETS))
