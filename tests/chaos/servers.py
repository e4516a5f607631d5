"""A durable Postgres of one test alone, to be killed."""

import asyncio
import os
import signal

from app.adapters.embedded.server import EmbeddedPostgres
from app.adapters.postgres.engine import administer
from app.adapters.postgres.migrations import migrate
from app.adapters.postgres.roles import APP, OWNER, make_roles
from tests.support.databases import Cloned


class OwnServer:
    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self.cloned = Cloned(admin_url=self._url("postgres"), owner_url=self._url(OWNER), app_url=self._url(APP))

    async def prepare(self) -> None:
        await make_roles(self._server.url(), owner_url=self.cloned.owner_url, app_url=self.cloned.app_url)
        await migrate(self.cloned.owner_url)

    async def kill(self) -> None:
        async with administer(self.cloned.admin_url) as admin:
            file = await admin.fetchval("select pg_read_file('postmaster.pid')")
        os.kill(int(file.split()[0]), signal.SIGKILL)

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)

    def _url(self, user: str) -> str:
        return self._server.url(user=user, database="daira")
