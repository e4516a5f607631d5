"""The connection pool. No other module opens a connection to Postgres."""

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

from app.domain.errors import Misconfigured, Unavailable

T = TypeVar("T")

OUT_OF_REACH = (
    OSError,
    EOFError,
    TimeoutError,
    PoolTimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleSessionTimeoutError,
)
"""Errors that don't concern the statement: the server is away, or too busy for another connection."""

NOT_NOW = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
)
"""Errors that another try may avoid: a deadlock, a full disk, a standby."""

CLOSED = asyncpg.ObjectNotInPrerequisiteStateError
"""The database accepts no connections: an administrator does this while moving or restoring it."""

REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)
"""Errors of the settings: the server is there, and knows no such login or database."""

NO_SCHEMA = (asyncpg.InvalidSchemaNameError, asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError)


POOLED = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
"""The statement was prepared in another client's session, or is missing in this one."""

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
    """Connections for one purpose (web, claims, handlers…), so that no purpose can starve another."""

    def __init__(self, url: str, *, pool_size: int, name: str, pooled: bool = False) -> None:
        """`pooled`: keep no statement prepared. Behind a pooler in transaction mode, the next transaction lacks it."""
        self._pooled = pooled
        self._engine = create_async_engine(
            _driver_url(url),
            # A pool of 0 means a connection for each use, for short-lived commands.
            **({"pool_size": pool_size, "max_overflow": 0, "pool_timeout": POOL_TIMEOUT} if pool_size else {}),
            **({} if pool_size else {"poolclass": NullPool}),
            # An error's text may reach a log, so the parameters are left out: they may hold a document's text.
            hide_parameters=True,
            connect_args={
                "timeout": 10,
                "command_timeout": 60,
                "server_settings": {"application_name": f"daira-{name}"},
                **(UNPREPARED if pooled else {}),
            },
        )

        # A connection that the server closed in the pool is replaced, not handed out. This costs no query.
        event.listen(self._engine.sync_engine, "checkout", _refuse_closed)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """A transaction, committed on leaving. Only `Database.begin` and the probes of tenant isolation begin one."""
        with postgres_reachable():
            async with self._engine.connect() as connection, connection.begin():
                yield connection

    async def call(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        """Execute one statement in one round trip and one commit: the functions of the hot path and the doorbells."""
        with postgres_reachable():
            # Only SQLAlchemy's pool is used: its handling of statements and transactions takes longer than most of
            # these.
            borrowed = await self._engine.raw_connection()
            try:
                driver = borrowed.driver_connection
                assert driver is not None
                # Preparing and executing are two messages, which a pooler separates unless they are in a transaction.
                async with driver.transaction() if self._pooled else nullcontext():
                    rows: list[asyncpg.Record] = await driver.fetch(statement, *arguments)
            except (asyncio.CancelledError, *OUT_OF_REACH):
                # The pool does not know of this and would keep the connection, which may be in a transaction after a
                # cancel.
                borrowed.invalidate()
                raise
            finally:
                await greenlet_spawn(borrowed.close)
            return rows

    def checked_out(self) -> int:
        pool = self._engine.pool
        return int(pool.checkedout()) if hasattr(pool, "checkedout") else 0

    async def close(self) -> None:
        await self._engine.dispose()


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
        connection = await asyncpg.connect(
            _plain_url(url), timeout=10, server_settings={"application_name": "daira-listen"}
        )
        await connection.add_listener(channel, lambda *_: heard.set())
        return connection


@asynccontextmanager
async def administer(
    url: str, *, database: str | None = None, prepared: bool = True
) -> AsyncIterator[asyncpg.Connection]:
    """A connection for `daira db init` and for tests. Statements commit one by one."""
    options = ({"database": database} if database else {}) | ({} if prepared else {"statement_cache_size": 0})
    with postgres_reachable():
        connection = await asyncpg.connect(_plain_url(url), timeout=10, **options)
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


class postgres_reachable:  # noqa: N801 - reads as a statement: with reachable()
    """Turns every failure to reach the server into Unavailable: Misconfigured where it refuses the settings."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if refusal := _cause(error, *REFUSED):
            raise Misconfigured(f"the database refuses this login: {refusal}") from error
        if _cause(error, *NO_SCHEMA):
            raise Misconfigured("the database's schema is not there, or too old: run `daira migrate`") from error
        if _cause(error, *NOT_NOW):
            raise Unavailable("the database can't do this just now: try again") from error
        if closed := _cause(error, CLOSED):
            raise Unavailable(f"the database refuses connections for now: {closed}") from error
        if _cause(error, *POOLED):
            raise Misconfigured(THROUGH_A_POOLER) from error
        if _cause(error, *OUT_OF_REACH) or (isinstance(error, DBAPIError) and error.connection_invalidated):
            raise Unavailable("the database can't be reached") from error


def _refuse_closed(connection: AdaptedConnection, _record: object, _proxy: object) -> None:
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _cause(error: BaseException | None, *kinds: type[BaseException]) -> BaseException | None:
    """The first error of these kinds among an error and its causes. SQLAlchemy wraps the driver's error twice."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error


def _plain_url(url: str) -> str:
    return url.replace("postgresql+asyncpg://", "postgresql://", 1).replace("postgres://", "postgresql://", 1)


def _driver_url(url: str) -> str:
    return _plain_url(url).replace("postgresql://", "postgresql+asyncpg://", 1)
