"""`daira doctor`: the start-up guard and every connection, one line each, in any environment."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

from rich.console import Console

from app import guard, local
from app.adapters.postgres.engine import once
from app.bootstrap import open_runtime
from app.settings import Environment, Settings
from app.telemetry import Metrics


def doctor() -> None:
    """Check everything that production asks for, and that database, queue and blobs answer.

    Exits with 1 on a fault. In development, what only production refuses is told but is no fault.
    """
    console = Console(soft_wrap=True, highlight=False)
    failed = asyncio.run(_examine(console))
    sys.exit(1 if failed else 0)


async def _examine(console: Console) -> bool:
    settings = Settings()
    failed = False
    async for name, faults, tolerated in _answers(settings):
        mark = "[green]ok[/]   " if not faults else "[yellow]note[/] " if tolerated else "[red]FAULT[/]"
        console.print(f"{mark} {name}" + "".join(f"\n        {fault}" for fault in faults))
        failed = failed or (bool(faults) and not tolerated)
    return failed


async def _answers(settings: Settings) -> AsyncIterator[tuple[str, list[str], bool]]:
    """Name, faults, and whether they are tolerated here."""
    development = settings.env is Environment.DEVELOPMENT
    yield "settings", guard.settings_faults(settings), development
    async with local.with_database(settings) as located:
        if not located.memory_store and (away := await guard.answer("database", _reach(located))):
            # Every other check would only say the same.
            yield "database answers", away, False
            return
        for name, check in guard.checks(located).items():
            if name != "settings":
                tolerated = development and name == guard.NO_DEVELOPMENT_KEY
                yield name, await guard.answer(name, check), tolerated
        async with open_runtime(located.without_worker(), Metrics()) as runtime:
            for name, ping in runtime.pings.items():
                yield f"{name} answers", await guard.answer(name, _as_check(ping)), False


def _reach(settings: Settings) -> guard.Check:
    url = settings.database_url.get_secret_value()
    return _as_check(lambda: once(url, lambda engine: engine.call("select 1"), name="doctor", pooled=settings.pooled))


def _as_check(ping: Callable[[], Awaitable[object]]) -> guard.Check:
    async def check() -> list[str]:
        await ping()
        return []

    return check
