"""Connections to Redis or Valkey. Every wait has an end, and every failure to reach the server is Unavailable.

A connection that answers is not yet one that works. After a failover the old server may live on as a replica that
refuses every write, while new connections reach the new primary. So a server that says that it takes no writes counts
as one that was lost: its connection is closed, and the command is sent again on a new one, with the name resolved anew.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's, no relation of the built-in one
    NoPermissionError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - redis-py's
)
from typing_extensions import override

from app.domain.errors import Invalid, Unavailable

T = TypeVar("T")

CONNECT_TIMEOUT = 5
ANSWER_TIMEOUT = 5
"""Seconds without an answer, beyond the time that a command may block. Then the connection counts as lost."""

REFUSED = (AuthenticationError, AuthenticationWrongNumberOfArgsError, AuthorizationError, NoPermissionError)

NOT_WRITABLE = (ReadOnlyError, ClusterDownError)
"""A replica (READONLY), one without its primary (MASTERDOWN), and a cluster without a majority (CLUSTERDOWN)."""

NOT_WRITABLE_CODES = ("NOREPLICAS", "MISCONF", "UNBLOCKED")
"""Answers without a class of their own: a primary cut off from its replicas, one that can't save, and the end of a
blocked command on a server that has just become a replica."""


class NotWritableError(ConnectionError):
    """The server answers and takes no writes. The command was not executed."""


class _ElsewhereRetry(Retry):
    """Tries again on a new connection, which may lead to another server."""

    @override
    async def call_with_retry(self, do: Callable[[], Awaitable[T]], *arguments: Any, **named: Any) -> T:
        async def judged() -> T:
            try:
                return await do()
            except ResponseError as error:
                if isinstance(error, NOT_WRITABLE) or str(error).startswith(NOT_WRITABLE_CODES):
                    raise NotWritableError(str(error)) from error
                raise

        # The library closes the connection of each error that it tries again after.
        return await super().call_with_retry(judged, *arguments, **named)


def connect(url: str, *, name: str, connections: int, may_block: float = 0) -> Redis:
    """Make a client; it connects when it is first used.

    Raises Invalid. Its text, like that of every error here, holds no part of the URL.
    """
    try:
        pool = BlockingConnectionPool.from_url(url, timeout=ANSWER_TIMEOUT, max_connections=connections)
    except ValueError:
        # The library's text may quote a password that was not percent-encoded.
        raise Invalid(
            "a Redis URL is redis://host:port/db, rediss://… or unix:///path; special characters are percent-encoded"
        ) from None
    # Set here and not as arguments, which a query in the URL would override.
    pool.connection_kwargs.update(
        client_name=name,
        decode_responses=False,
        socket_connect_timeout=CONNECT_TIMEOUT,
        socket_timeout=may_block + ANSWER_TIMEOUT,
        # A restart of the server leaves lost connections in the pool, which only using them shows. A timeout is not
        # retried: the caller has waited long enough, and a server that doesn't answer should get no more work.
        retry=_ElsewhereRetry(ExponentialWithJitterBackoff(base=0.05, cap=0.5), 2, supported_errors=(ConnectionError,)),
    )
    return Redis.from_pool(pool)


@asynccontextmanager
async def redis_errors(client: Redis) -> AsyncIterator[None]:
    """Turn errors of the server and the network into Unavailable, with the server's reason.

    After a failure to be answered, the client's idle connections are closed: they may lead to the same dead server.
    """
    try:
        yield
    except REFUSED as error:
        raise Unavailable(f"the queue refuses this login: {_text(error)}") from error
    except NotWritableError as error:
        raise Unavailable(f"the queue takes no writes: {_text(error)}") from error
    except (ResponseError, BusyLoadingError) as error:
        raise Unavailable(f"the queue failed: {_text(error)}") from error
    except (RedisError, OSError) as error:
        await forget_idle(client)
        reason = _reason(error)
        raise Unavailable(f"the queue can't be reached{reason and ': '}{reason}") from error
    except asyncio.CancelledError:
        # The caller's patience has ended.
        await forget_idle(client)
        raise


async def run_script(script: AsyncScript, client: Redis, *, keys: list[str], args: Sequence[str | bytes | int]) -> Any:
    """Run a script that the server may not have yet."""
    try:
        return await script(keys=keys, args=args)
    except NoScriptError:
        # It was loaded through another connection, which leads to another server: so all of it on one.
        async with client.client() as one:
            return await script(keys=keys, args=args, client=one)


async def forget_idle(client: Redis) -> None:
    await client.connection_pool.disconnect(inuse_connections=False)


def _text(error: Exception) -> str:
    """The server's words, without the list of arguments and the script that it may quote."""
    return str(error).partition("\n")[0].partition(", with args")[0].partition(" script: ")[0][:200]


def _reason(error: BaseException | None) -> str:
    """The system's words. Those of the library may quote the host, which in a malformed URL is part of the password."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        error = error.__cause__ or error.__context__
    return ""
