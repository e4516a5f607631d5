"""Scenes that mostly wait are played side by side: a module takes as long as its longest one."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future

from tests.support.databases import Databases

Play = Callable[[Databases], Awaitable[None]]

AT_A_TIME = 8
"""Each has a few processes, and their start keeps a core busy."""


def side_by_side(play: Play) -> Callable[["Plays"], None]:
    """A test from a coroutine function: it is played with the others of its module, and its outcome is the test's."""

    def test(plays: Plays) -> None:
        plays.outcome(play)

    test.__name__, test.__doc__, test.__module__ = play.__name__, play.__doc__, play.__module__
    test.__dict__["play"] = play
    return test


class Plays:
    """Played from the first question on, in a thread with a loop of its own."""

    def __init__(self, plays: Sequence[Play], databases: Databases) -> None:
        self._databases = databases
        self._outcomes: dict[Play, Future[None]] = {play: Future() for play in plays}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._play_all()), name="plays")
        self._thread.start()

    def outcome(self, play: Play) -> None:
        """Raises what the play raised."""
        self._outcomes[play].result()

    def stop(self) -> None:
        """Those that nobody asks for any more end early."""
        self._stopped.set()
        self._thread.join()

    async def _play_all(self) -> None:
        room = asyncio.Semaphore(AT_A_TIME)
        playing = [asyncio.create_task(self._play(play, room)) for play in self._outcomes]
        while not self._stopped.is_set() and not all(task.done() for task in playing):
            await asyncio.sleep(0.05)
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)

    async def _play(self, play: Play, room: asyncio.Semaphore) -> None:
        outcome = self._outcomes[play]
        try:
            async with room:
                await play(self._databases)
        except BaseException as error:
            outcome.set_exception(error)
            raise
        outcome.set_result(None)
