"""Scenarios that mostly wait are run side by side: a module takes as long as its longest one."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future

from tests.support.databases import Databases

Scenario = Callable[[Databases], Awaitable[None]]

AT_A_TIME = 8
"""Each has a few processes, and their start keeps a core busy."""


def side_by_side(scenario: Scenario) -> Callable[["Scenarios"], None]:
    """A test from a coroutine function: it is run with the others of its module; its outcome is the test's."""

    def test(scenarios: Scenarios) -> None:
        scenarios.outcome(scenario)

    test.__name__, test.__doc__, test.__module__ = scenario.__name__, scenario.__doc__, scenario.__module__
    test.__dict__["scenario"] = scenario
    return test


class Scenarios:
    """They run from the first question on, in a thread with a loop of its own."""

    def __init__(self, scenarios: Sequence[Scenario], databases: Databases) -> None:
        self._databases = databases
        self._outcomes: dict[Scenario, Future[None]] = {scenario: Future() for scenario in scenarios}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run_all()), name="scenarios")
        self._thread.start()

    def outcome(self, scenario: Scenario) -> None:
        """Raises what the scenario raised."""
        self._outcomes[scenario].result()

    def stop(self) -> None:
        """Those that nobody asks for any more end early."""
        self._stopped.set()
        self._thread.join()

    async def _run_all(self) -> None:
        room = asyncio.Semaphore(AT_A_TIME)
        running = [asyncio.create_task(self._run(scenario, room)) for scenario in self._outcomes]
        while not self._stopped.is_set() and not all(task.done() for task in running):
            await asyncio.sleep(0.05)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, scenario: Scenario, room: asyncio.Semaphore) -> None:
        outcome = self._outcomes[scenario]
        try:
            async with room:
                await scenario(self._databases)
        except BaseException as error:
            outcome.set_exception(error)
            raise
        outcome.set_result(None)
