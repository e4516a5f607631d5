"""The driver's errors by what can be done about them, and the sentences that replace their texts."""

import socket
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

import asyncpg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from app.domain.errors import Collided, Misconfigured, Unavailable

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
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.InsufficientResourcesError,
    asyncpg.PostgresSystemError,
)
"""Errors that another try may avoid, such as a full disk."""

COLLIDED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
"""Errors that another try at once avoids: nothing was written."""

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

STANDBY = "the database is a standby, which takes no writes: the primary is needed"
READ_ONLY = (
    "the database is read-only (default_transaction_read_only = on), so it takes no writes: its disk may be full, or an"
    " administrator has set it"
)
DURING_RECOVERY = "during recovery"
"""The end of a server's message for what a standby can't do; their codes differ."""

UNENCRYPTED = "no encryption"
"""The end of a server's message for a login that it may admit with TLS."""

NO_TLS = "rejected SSL upgrade"
"""The driver's words for a server without TLS."""


NOT_NOW_TEXT = "the database can't do this just now: try again"
ANSWERS: dict[tuple[type[BaseException], ...], Callable[[], Unavailable]] = {
    NO_SCHEMA: lambda: Misconfigured("the database's schema is not there, or too old: run `daira migrate`"),
    COLLIDED: lambda: Collided(NOT_NOW_TEXT),
    NOT_NOW: lambda: Unavailable(NOT_NOW_TEXT),
    POOLED: lambda: Misconfigured(THROUGH_A_POOLER),
}


class postgres_reachable:  # noqa: N801 - reads as a statement: with reachable()
    """Turns every failure to reach the server into Unavailable: Misconfigured where it refuses the settings.

    A collision of transactions becomes Collided.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Unavailable):
            # Its cause would be answered by less.
            return
        if answer := _answer(error):
            raise answer from error


def _answer(error: BaseException) -> Unavailable | None:
    if refusal := cause(error, *REFUSED):
        hint = "; write sslmode=require" if UNENCRYPTED in str(refusal) else ""
        return Misconfigured(f"the database refuses this login: {in_a_line(refusal)}{hint}")
    if is_read_only(error):
        return Unavailable("the database takes no writes just now: it is read-only, or a standby")
    for kinds, answer in ANSWERS.items():
        if cause(error, *kinds):
            return answer()
    # After the others, because a lock that is not available is of this kind too.
    if closed := cause(error, CLOSED):
        return Unavailable(f"the database refuses connections for now: {in_a_line(closed)}")
    if away := cause(error, *OUT_OF_REACH):
        return Unavailable(f"the database can't be reached{_reason(away)}")
    invalidated = isinstance(error, DBAPIError) and error.connection_invalidated
    return Unavailable("the database can't be reached") if invalidated else None


def cause(error: BaseException | None, *kinds: type[BaseException]) -> BaseException | None:
    """The first error of these kinds among an error and its causes. SQLAlchemy wraps the driver's error twice."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error


def in_a_line(error: BaseException) -> str:
    """The error's text. The driver puts details and hints on lines of their own."""
    return " ".join(str(error).split())


def is_away(error: BaseException) -> bool:
    return cause(error, *OUT_OF_REACH) is not None


def is_read_only(error: BaseException | None) -> bool:
    """True if the server takes no writes: it is a standby, or was made read-only."""
    recovering = cause(error, asyncpg.FeatureNotSupportedError)
    return cause(error, asyncpg.ReadOnlySQLTransactionError) is not None or DURING_RECOVERY in str(recovering)


REASONS = {
    socket.gaierror: ": the name of its host is not known",
    ConnectionRefusedError: ": nothing listens there",
    FileNotFoundError: ": nothing listens there",
}


def _reason(error: BaseException) -> str:
    """Without the names of hosts, because tenants may read it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f" safely: its certificate is not accepted ({error.verify_message}); see sslrootcert and sslmode"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "a certificate's key can't be read"
        return f": TLS failed ({reason}); see sslmode, sslrootcert, sslcert, sslkey and sslpassword"
    if isinstance(error, asyncpg.ClientConfigurationError):
        return f": {in_a_line(error)}"
    if isinstance(error, ConnectionError) and NO_TLS in str(error):
        return ": its server has no TLS, which sslmode asks for"
    return next((text for kind, text in REASONS.items() if isinstance(error, kind)), "")
