"""`daira doctor`: the start-up guard and every connection, one line each, in any environment."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

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
    if settings.embedded and not development:
        return
    async with local.with_database(settings) as located:
        away = [] if located.memory_store else await guard.answer("database", _reach(located))
        # Without a database every check of it would only say the same.
        checks = {} if away else guard.checks(located)
        checks.pop("settings", None)
        for name, check in checks.items():
            yield name, await guard.answer(name, check), development and name == guard.NO_DEVELOPMENT_KEY
        async with open_runtime(located.without_worker(), Metrics()) as runtime:
            for name, ping in runtime.pings.items():
                faults = await guard.answer(name, _as_check(ping))
                yield f"{name} answers", [_with_address(fault, located, of=name) for fault in faults], False


def _with_address(fault: str, settings: Settings, *, of: str) -> str:
    """Which database was asked: not by whom, and not with which password."""
    if of != "database":
        return fault
    address = urlsplit(settings.database_url.get_secret_value())
    return f"{fault}; DAIRA_DATABASE_URL leads to {address.hostname or 'a socket'}:{address.port or 5432}{address.path}"


def _reach(settings: Settings) -> guard.Check:
    url = settings.database_url.get_secret_value()
    return _as_check(lambda: once(url, lambda engine: engine.call("select 1"), name="doctor", pooled=settings.pooled))


def _as_check(ping: Callable[[], Awaitable[object]]) -> guard.Check:
    async def check() -> list[str]:
        await ping()
        return []

    return check
