"""Two Postgres of one test: a primary, and a standby that has every commit before it is answered."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.adapters.postgres.engine import administer
from app.adapters.postgres.isolation.roles import APP, OWNER, make_roles
from app.adapters.postgres.migrations import migrate
from tests.support.databases import Cloned
from tests.support.folders import open_folder
from tests.support.tcp_postgres import TcpPostgres, new_server

PASSWORD = "s3cret"
"""The password of every role: the servers end with the test."""

DATABASE = "daira"

EACH_COMMIT_TWICE = "alter system set synchronous_standby_names = '*'"
ALONE = "alter system reset synchronous_standby_names"
FENCED = "alter system set default_transaction_read_only = on"
RELOAD = "select pg_reload_conf()"

IN_STEP = "select count(*) = 1 from pg_stat_replication where sync_state = 'sync'"
PROMOTE = "select pg_promote(wait => true)"


@dataclass(kw_only=True)
class PostgresPair:
    primary: TcpPostgres
    standby: TcpPostgres

    def of_both(self) -> Cloned:
        """URLs that name both servers, in an order that stays."""
        ports = sorted((self.primary.port, self.standby.port))
        return Cloned(admin_url=_url("postgres", *ports), owner_url=_url(OWNER, *ports), app_url=_url(APP, *ports))

    async def crash(self) -> None:
        await asyncio.to_thread(self.primary.stop, signal.SIGQUIT)

    async def fence(self) -> None:
        """The primary stays, with its connections, and takes no writes."""
        await self._on(self.primary, FENCED, RELOAD)

    async def promote(self) -> None:
        """The standby becomes the primary, on its own until the other follows it."""
        # It waits for no standby from its first commit.
        await self._on(self.standby, ALONE, RELOAD, PROMOTE)
        self.primary, self.standby = self.standby, self.primary

    async def follow(self) -> None:
        """The server that is not the primary becomes its standby, and has every commit from then on."""
        await asyncio.to_thread(self.standby.stop, signal.SIGQUIT)
        await asyncio.to_thread(self.standby.copy, _url("postgres", self.primary.port, database="postgres"))
        # Not in a thread: a server ends with the thread that started it.
        self.standby.start()
        await self._on(self.primary, EACH_COMMIT_TWICE, RELOAD)
        async with asyncio.timeout(30), administer(_url("postgres", self.primary.port)) as admin:
            while not await admin.fetchval(IN_STEP):
                await asyncio.sleep(0.05)

    async def _on(self, server: TcpPostgres, *statements: str) -> None:
        async with administer(_url("postgres", server.port)) as admin:
            for statement in statements:
                await admin.execute(statement)


def of_one(server: TcpPostgres) -> str:
    """The application's URL of this server only."""
    return _url(APP, server.port)


@asynccontextmanager
async def postgres_pair() -> AsyncIterator[PostgresPair]:
    with open_folder() as first, open_folder() as second:
        pair = PostgresPair(primary=new_server(first), standby=new_server(second))
        pair.primary.initialise(password=PASSWORD)
        pair.primary.start()
        try:
            urls = [_url(user, pair.primary.port) for user in ("postgres", OWNER, APP)]
            admin_url = _url("postgres", pair.primary.port, database="postgres")
            await make_roles(admin_url, owner_url=urls[1], app_url=urls[2])
            await migrate(urls[1])
            await pair.follow()
            yield pair
        finally:
            for server in (pair.primary, pair.standby):
                server.stop(signal.SIGQUIT)


def _url(user: str, *ports: int, database: str = DATABASE) -> str:
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return f"postgresql://{user}:{PASSWORD}@{hosts}/{database}"
