"""A competitor: its program, its database, and its best setting so far."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from app.adapters.postgres.engine import administer
from benchmarks.race.processes import Broken, Programs, Running
from benchmarks.race.program import Order, Setting
from benchmarks.race.server import Server

WARM_UP = 200
"""Jobs that a worker runs before it is measured, so that plans are made, statements prepared and pools filled."""

PATIENCE = 30
"""Seconds for the warm-up. A worker that is slower counts as warm; one that has run no job by then is broken."""


@dataclass(kw_only=True)
class Competitor:
    about: dict[str, Any]
    programs: Programs
    dsn: str
    best: Setting
    """The first setting, until the drain has found a better one."""

    @property
    def name(self) -> str:
        return str(self.about["name"])

    def takes_part(self, measure: str) -> bool:
        return measure in self.about["measures"]

    async def settled(self, admin: asyncpg.Connection) -> int:
        count: int = await admin.fetchval(self.about["settled"])
        return count

    async def forget(self) -> None:
        """Remove every trace of earlier jobs."""
        async with administer(self.dsn) as admin:
            await admin.execute(self.about["forget"])

    @asynccontextmanager
    async def warm_worker(self, setting: Setting, *, echo: bool = False) -> AsyncIterator[tuple[Running, Running]]:
        """Yield a worker that has run some jobs and waits for more, and the client that added them."""
        async with (
            administer(self.dsn) as admin,
            self.programs.adder(self.dsn) as adder,
            self.programs.worker(self.dsn, setting, echo=echo) as worker,
        ):
            before = await self.settled(admin)
            await adder.ask(Order(do="preload", count=WARM_UP))
            deadline = time.monotonic() + PATIENCE
            while (settled := await self.settled(admin) - before) < WARM_UP and time.monotonic() < deadline:
                worker.check()
                await asyncio.sleep(0.05)
            if not settled:
                raise Broken(f"{self.name} settled no job in {PATIENCE} s. {worker.last_words()}")
            # Time for the product's work after its last job.
            await asyncio.sleep(0.5)
            yield worker, adder
            worker.check()


async def enter(server: Server, script: Path, *, python: Path) -> Competitor:
    """Give the competitor a database and its schema."""
    programs = Programs(python=python, script=script)
    about = await programs.describe()
    dsn = await server.make(f"race_{script.stem}")
    await programs.install(dsn)
    return Competitor(about=about, programs=programs, dsn=dsn, best=about["settings"][0])
