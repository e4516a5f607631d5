"""A durable Postgres of one test alone, to be killed, restarted, frozen and cut off."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.adapters.postgres.engine import administer
from app.adapters.postgres.isolation.roles import APP, OWNER, make_roles
from app.adapters.postgres.migrations import migrate
from app.embedded.server import EmbeddedPostgres
from tests.support.databases import Cloned


class OwnServer:
    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self.cloned = Cloned(admin_url=self._url("postgres"), owner_url=self._url(OWNER), app_url=self._url(APP))

    async def prepare(self) -> None:
        await make_roles(self._server.url(), owner_url=self.cloned.owner_url, app_url=self.cloned.app_url)
        await migrate(self.cloned.owner_url)

    async def kill(self) -> None:
        os.kill(await self._postmaster(), signal.SIGKILL)

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)

    async def restart(self, how: signal.Signals) -> None:
        """SIGINT is a fast shutdown, SIGKILL a crash."""
        postmaster = await self._postmaster()
        os.kill(postmaster, how)
        async with asyncio.timeout(60):
            # On its way down it still takes sessions: to start it then would do nothing.
            while _lives(postmaster):
                await asyncio.sleep(0.05)
        await self.start()

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Connections stay and are silent, as behind a network that drops its packets."""
        postmaster = await self._postmaster()
        # The parent first: it would take the stop of a child for its business.
        os.kill(postmaster, signal.SIGSTOP)
        children = _children(postmaster)
        try:
            for child in children:
                os.kill(child, signal.SIGSTOP)
            yield
        finally:
            for process in [*children, postmaster]:
                os.kill(process, signal.SIGCONT)

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """The application is thrown out, and not let in again."""
        async with administer(self.cloned.admin_url) as admin:
            await admin.execute(f"alter role {APP} connection limit 0")
            await admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", APP)
        try:
            yield
        finally:
            async with administer(self.cloned.admin_url) as admin:
                await admin.execute(f"alter role {APP} connection limit -1")

    async def _postmaster(self) -> int:
        async with administer(self.cloned.admin_url) as admin:
            file: str = await admin.fetchval("select pg_read_file('postmaster.pid')")
        return int(file.split(maxsplit=1)[0])

    def _url(self, user: str) -> str:
        return self._server.url(user=user, database="daira")


def _children(parent: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
