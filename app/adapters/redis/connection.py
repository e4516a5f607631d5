"""Connections to Redis or Valkey. Every wait has an end, and every failure to reach the server is Unavailable."""

from collections.abc import Iterator
from contextlib import contextmanager

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - redis-py's, no relation of the built-in one
    NoPermissionError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - redis-py's
)

from app.domain.errors import Invalid, Unavailable

CONNECT_TIMEOUT = 5
ANSWER_TIMEOUT = 5
"""Seconds without an answer, beyond the time that a command may block. Then the connection counts as lost."""

REFUSED = (AuthenticationError, AuthenticationWrongNumberOfArgsError, AuthorizationError, NoPermissionError)


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
        retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=0.5), 2, supported_errors=(ConnectionError,)),
    )
    return Redis.from_pool(pool)


@contextmanager
def redis_errors() -> Iterator[None]:
    """Turn errors of the server and the network into Unavailable, with the server's reason."""
    try:
        yield
    except REFUSED as error:
        raise Unavailable(f"the queue refuses this login: {_text(error)}") from error
    except (ResponseError, BusyLoadingError) as error:
        raise Unavailable(f"the queue failed: {_text(error)}") from error
    except (RedisError, OSError) as error:
        reason = _reason(error)
        raise Unavailable(f"the queue can't be reached{reason and ': '}{reason}") from error


def _text(error: Exception) -> str:
    """The server's words, without the list of arguments that it may quote."""
    return str(error).partition("\n")[0].partition(", with args")[0][:200]


def _reason(error: BaseException | None) -> str:
    """The system's words. Those of the library may quote the host, which in a malformed URL is part of the password."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        error = error.__cause__ or error.__context__
    return ""
