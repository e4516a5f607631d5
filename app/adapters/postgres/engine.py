"""The pool. Nothing else in the program opens a connection to Postgres."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from types import TracebackType
from typing import Self, TypeVar

import asyncpg
from sqlalchemy import AdaptedConnection, event
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.util import greenlet_spawn

from app.domain.errors import Unavailable

T = TypeVar("T")

OUT_OF_REACH = (
    OSError,
    TimeoutError,
    PoolTimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)
"""Errors that say nothing of the statement: the server is away, or too busy for one more."""

NOT_NOW = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InsufficientResourcesError,
)
"""Errors that another try may not meet: two that met in the middle, a full disk, a standby."""

REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    # The database does not accept connections: an administrator's doing, while it is moved or restored.
    asyncpg.ObjectNotInPrerequisiteStateError,
)

NO_SCHEMA = (asyncpg.InvalidSchemaNameError, asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError)


POOLED = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
"""A statement that was prepared in another client's session, or is not in this one's."""

THROUGH_A_POOLER = (
    "DAIRA_DATABASE_URL leads through a pooler in transaction mode: set DAIRA_LISTEN_URL to a direct connection"
)

POOL_TIMEOUT = 10
"""Seconds that a caller waits for a connection of the pool."""

UNPREPARED = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}


class PostgresEngine:
    """Connections of one purpose (web, claims, handlers…), so that none can starve another."""

    def __init__(self, url: str, *, pool_size: int, name: str, pooled: bool = False) -> None:
        """With `pooled` nothing is kept prepared: behind a pooler in transaction mode it is gone in the next one."""
        self._pooled = pooled
        self._engine = create_async_engine(
            _driver_url(url),
            # A pool of 0 means a connection for each use: commands that come and go.
            **({"pool_size": pool_size, "max_overflow": 0, "pool_timeout": POOL_TIMEOUT} if pool_size else {}),
            **({} if pool_size else {"poolclass": NullPool}),
            # An error's text may reach a log: without the parameters, which may hold a document's text.
            hide_parameters=True,
            connect_args={
                "timeout": 10,
                "command_timeout": 60,
                "server_settings": {"application_name": f"daira-{name}"},
                **(UNPREPARED if pooled else {}),
            },
        )

        # A connection that the server closed while it lay in the pool is replaced, not handed out: no query asks.
        event.listen(self._engine.sync_engine, "checkout", _refuse_closed)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that leaving commits. Only `Database.begin` and what tries the wall ask for one."""
        with postgres_reachable():
            async with self._engine.connect() as connection, connection.begin():
                yield connection

    async def call(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """One statement, one round trip, one commit: the functions of the hot path and the doorbells."""
        with postgres_reachable():
            # Of the pool alone: what SQLAlchemy knows of statements and transactions takes longer than most of these.
            lent = await self._engine.raw_connection()
            try:
                driver = lent.driver_connection
                assert driver is not None
                # Preparing and executing are two messages: only a transaction keeps a pooler from parting them.
                async with driver.transaction() if self._pooled else nullcontext():
                    rows: list[asyncpg.Record] = await driver.fetch(statement, *arguments)
            except (asyncio.CancelledError, *OUT_OF_REACH):
                # The pool has not seen this and would keep the connection: cancelled, it may be in a transaction.
                lent.invalidate()
                raise
            finally:
                await greenlet_spawn(lent.close)
            return rows

    def checked_out(self) -> int:
        pool = self._engine.pool
        return int(pool.checkedout()) if hasattr(pool, "checkedout") else 0

    async def close(self) -> None:
        await self._engine.dispose()


async def temporary_engine(
    url: str, act: Callable[[PostgresEngine], Awaitable[T]], *, name: str, pooled: bool = False
) -> T:
    """For commands and checks, which come and go: an engine without a pool, closed afterwards."""
    engine = PostgresEngine(url, pool_size=0, name=name, pooled=pooled)
    try:
        return await act(engine)
    finally:
        await engine.close()


async def listen(url: str, channel: str, heard: asyncio.Event) -> asyncpg.Connection:
    """A connection of its own that sets `heard` at each notification. The caller closes it."""
    with postgres_reachable():
        connection = await asyncpg.connect(
            _plain_url(url), timeout=10, server_settings={"application_name": "daira-listen"}
        )
        await connection.add_listener(channel, lambda *_: heard.set())
        return connection


@asynccontextmanager
async def administer(
    url: str, *, database: str | None = None, prepared: bool = True
) -> AsyncIterator[asyncpg.Connection]:
    """A connection for `daira db init` and for tests: statements commit one by one."""
    options = ({"database": database} if database else {}) | ({} if prepared else {"statement_cache_size": 0})
    with postgres_reachable():
        connection = await asyncpg.connect(_plain_url(url), timeout=10, **options)
    try:
        yield connection
    finally:
        await connection.close()


async def is_shared(url: str) -> bool:
    """True when a pooler in transaction mode is in between: two clients at once have one session of the server.

    On a busy pooler they may get different ones: True is certain, False is not.
    """
    with postgres_reachable():
        async with administer(url, prepared=False) as one, administer(url, prepared=False) as other:
            return await _session(one) == await _session(other)


async def _session(client: asyncpg.Connection) -> int:
    async with client.transaction():
        return int(await client.fetchval("select pg_backend_pid()"))


class postgres_reachable:  # noqa: N801 - reads as a statement: with reachable()
    """Turns every way of not reaching the server into Unavailable."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if refusal := _cause(error, *REFUSED):
            raise Unavailable(f"the database refuses this login: {refusal}") from error
        if _cause(error, *NO_SCHEMA):
            raise Unavailable("the database's schema is not there, or too old: run `daira migrate`") from error
        if _cause(error, *NOT_NOW):
            raise Unavailable("the database can't do this just now: try again") from error
        if _cause(error, *POOLED):
            raise Unavailable(THROUGH_A_POOLER) from error
        if _cause(error, *OUT_OF_REACH) or (isinstance(error, DBAPIError) and error.connection_invalidated):
            raise Unavailable("the database can't be reached") from error


def _refuse_closed(connection: AdaptedConnection, _record: object, _proxy: object) -> None:
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _cause(error: BaseException | None, *kinds: type[BaseException]) -> BaseException | None:
    """The first of these kinds among an error and its causes: SQLAlchemy wraps the driver's error twice."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error


def _plain_url(url: str) -> str:
    return url.replace("postgresql+asyncpg://", "postgresql://", 1).replace("postgres://", "postgresql://", 1)


def _driver_url(url: str) -> str:
    return _plain_url(url).replace("postgresql://", "postgresql+asyncpg://", 1)
