"""The connection pool. No other module opens a connection to Postgres."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import AdaptedConnection, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, NullPool
from sqlalchemy.util import greenlet_spawn

from app.adapters.postgres.faults import OUT_OF_REACH, is_read_only, postgres_reachable
from app.adapters.postgres.servers import WRITABLE, PostgresServers, raise_unless_writable
from app.domain.errors import Collided, Unavailable

T = TypeVar("T")

POOL_TIMEOUT = 10
"""Seconds that a caller waits for a connection of the pool."""

UNPREPARED = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}


SESSION = "set default_transaction_isolation = 'read committed'"
"""Statements are written for this level. A database or a role may have another default, under which they would fail."""

UNTIL_THE_END = "begin isolation level read committed; set local row_security = on"
"""The same behind a pooler, where a session's settings are another client's."""

TRIES = 4
"""For a statement that collides with another: each try ends in a fraction of a second."""

RENEWED_AT_MOST_EVERY = 1.0
"""Seconds between two renewals of a pool: as long as no server takes writes, each request would cause one."""


class PostgresEngine:
    """Connections for one purpose (web, claims, handlers…), so that no purpose can starve another."""

    def __init__(self, url: str, *, pool_size: int, name: str, pooled: bool = False, row_security: bool = True) -> None:
        """`pooled`: keep no statement prepared. Behind a pooler in transaction mode, the next transaction lacks it.

        `row_security`: False leaves it to the role; migrations are to fail where it would hide rows.
        """
        self._pooled = pooled
        self._servers = PostgresServers(url)
        self._name = name
        self._session = f"{SESSION}; set row_security = on" if row_security else SESSION
        self._generation = 0
        self._renewed_at = float("-inf")
        self._engine = create_async_engine(
            "postgresql+asyncpg://",
            # A pool of 0 means a connection for each use, for short-lived commands.
            **({"pool_size": pool_size, "max_overflow": 0, "pool_timeout": POOL_TIMEOUT} if pool_size else {}),
            **({} if pool_size else {"poolclass": NullPool}),
            # An error's text may reach a log, so the parameters are left out: they may hold a document's text.
            hide_parameters=True,
            isolation_level="READ COMMITTED",
            # Beside its own arguments, which `async_creator` would lose.
            connect_args={
                "async_creator_fn": self._connect,
                "command_timeout": 60,
                **(UNPREPARED if pooled else {}),
            },
        )
        event.listen(self._engine.sync_engine, "connect", self._note_generation)
        # A connection that the server closed in the pool is replaced, not handed out. This costs no query.
        event.listen(self._engine.sync_engine, "checkout", self._refuse_useless)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """A transaction, committed on leaving. Only `Database.begin` and the probes of tenant isolation begin one."""
        with postgres_reachable(), self._renewing():
            async with self._engine.connect() as connection, connection.begin():
                yield connection

    async def call(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Execute one statement in one round trip and one commit: the functions of the hot path and the doorbells."""
        for _ in range(TRIES - 1):
            try:
                return await self._call(statement, *arguments)
            except Collided:
                # Nothing was written. Those that collided must not meet again.
                await asyncio.sleep(random.random() / 20)  # noqa: S311 - nothing secret hangs on it
            except Unavailable as error:
                # Nothing was written here either, and the next connection leads to the primary, if there is one.
                if not is_read_only(error):
                    raise
        return await self._call(statement, *arguments)

    async def _call(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        with postgres_reachable(), self._renewing():
            # Only SQLAlchemy's pool is used: its handling of statements and transactions takes longer than most of
            # these.
            borrowed = await self._engine.raw_connection()
            try:
                driver = borrowed.driver_connection
                assert driver is not None
                # Preparing and executing are two messages, which a pooler separates unless they are in a transaction.
                async with _transaction(driver) if self._pooled else nullcontext():
                    rows: list[asyncpg.Record] = await driver.fetch(statement, *arguments)
            except (asyncio.CancelledError, *OUT_OF_REACH):
                # The pool does not know of this and would keep the connection, which may be in a transaction after a
                # cancel.
                borrowed.invalidate()
                raise
            finally:
                await greenlet_spawn(borrowed.close)
            return rows

    async def ping(self) -> None:
        """Raise Unavailable unless the server takes writes. A standby, or a demoted primary, answers as well."""
        (row,) = await self.call(WRITABLE)
        try:
            raise_unless_writable(row)
        except Unavailable:
            self.renew()
            raise

    def renew(self) -> None:
        """Let each connection be replaced when it is next asked for, because they lead to a server without writes.

        New ones lead to the primary, by the list of hosts or by whatever stands behind the name.
        """
        if time.monotonic() - self._renewed_at >= RENEWED_AT_MOST_EVERY:
            self._renewed_at = time.monotonic()
            self._generation += 1

    def checked_out(self) -> int:
        pool = self._engine.pool
        return int(pool.checkedout()) if hasattr(pool, "checkedout") else 0

    async def close(self) -> None:
        await self._engine.dispose()

    async def _connect(self, **options: Any) -> asyncpg.Connection:
        connection = await self._servers.connect(name=self._name, **options)
        if not self._pooled:
            try:
                await connection.execute(self._session)
            except BaseException:
                connection.terminate()
                raise
        return connection

    @contextmanager
    def _renewing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if is_read_only(error):
                self.renew()
            raise

    def _note_generation(self, _connection: object, record: ConnectionPoolEntry) -> None:
        record.info["generation"] = self._generation

    def _refuse_useless(self, connection: AdaptedConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
        if connection.driver_connection.is_closed() or record.info["generation"] != self._generation:
            raise DisconnectionError


async def temporary_engine(
    url: str, act: Callable[[PostgresEngine], Awaitable[T]], *, name: str, pooled: bool = False
) -> T:
    """Call `act` with an engine that has no pool and is closed afterwards. For commands and checks."""
    engine = PostgresEngine(url, pool_size=0, name=name, pooled=pooled)
    try:
        return await act(engine)
    finally:
        await engine.close()


async def listen(url: str, channel: str, heard: asyncio.Event) -> asyncpg.Connection:
    """Open a connection that sets `heard` at each notification. The caller closes it."""
    with postgres_reachable():
        connection = await PostgresServers(url).connect(name="listen")
        try:
            await connection.execute(SESSION)
            await connection.add_listener(channel, lambda *_: heard.set())
        except BaseException:
            connection.terminate()
            raise
        return connection


async def ping_listener(connection: asyncpg.Connection, *, seconds: float) -> None:
    """Raise Unavailable if the connection is lost, or if its server has become one that notifies nobody."""
    with postgres_reachable():
        raise_unless_writable(await connection.fetchrow(WRITABLE, timeout=seconds))


@asynccontextmanager
async def administer(
    url: str, *, database: str | None = None, prepared: bool = True
) -> AsyncIterator[asyncpg.Connection]:
    """A connection for `daira db init` and for tests. Statements commit one by one."""
    with postgres_reachable():
        connection = await PostgresServers(url).connect(
            name="admin", database=database, **({} if prepared else {"statement_cache_size": 0})
        )
    try:
        yield connection
    finally:
        await connection.close()


async def is_shared(url: str) -> bool:
    """Return True if a pooler in transaction mode is in between: two clients at once share one session of the server.

    On a busy pooler they may get different sessions: True is certain, False is not.
    """
    with postgres_reachable():
        async with administer(url, prepared=False) as one, administer(url, prepared=False) as other:
            return await _session(one) == await _session(other)


async def _session(client: asyncpg.Connection) -> int:
    async with client.transaction():
        return int(await client.fetchval("select pg_backend_pid()"))


@asynccontextmanager
async def _transaction(driver: asyncpg.Connection) -> AsyncIterator[None]:
    """A transaction like the driver's own, with settings in the message that begins it."""
    await driver.execute(UNTIL_THE_END)
    try:
        yield
    except BaseException:
        if not driver.is_closed():
            with suppress(*OUT_OF_REACH):
                await driver.execute("rollback")
        raise
    await driver.execute("commit")
