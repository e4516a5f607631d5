"""Connections to the servers of a URL: of several, to the one that takes writes."""

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import asyncpg

from app.adapters.postgres.faults import READ_ONLY, STANDBY, in_a_line, is_away
from app.adapters.postgres.url_parameters import LOWEST_TLS, SYSTEM
from app.adapters.postgres.urls import check_files, parse_url
from app.domain.errors import Misconfigured, Unavailable

KEEPALIVE = {
    "keepalives_idle": ("TCP_KEEPIDLE", 15),
    "keepalives_interval": ("TCP_KEEPINTVL", 5),
    "keepalives_count": ("TCP_KEEPCNT", 3),
    "tcp_user_timeout": ("TCP_USER_TIMEOUT", 15_000),
}
"""Names of the socket's options, and what is set without a parameter. A machine that vanished is noticed within half a
minute; the system's own two hours would be longer than any lease."""

SETTINGS = {"standard_conforming_strings": "on"}
"""The meaning of backslashes in statements and functions, whatever the login's default is. PgBouncer keeps it, too."""

UNACCEPTED = (asyncpg.SyntaxOrAccessError, asyncpg.DataError, asyncpg.CantChangeRuntimeParamError)
"""Errors about what a connection asks for: `options` that the server does not know, a database that it may not use."""
STARTUP_PARAMETER = "startup parameter"
"""PgBouncer's words for what it does not pass on."""

CLOSED_AT_ONCE = (
    "the database can't be reached: its server closed the connection during the login; it may be stopping, want a"
    " client's certificate (sslcert), or not know sslnegotiation=direct"
)

WRITABLE = "select pg_is_in_recovery() as standby, current_setting('transaction_read_only') = 'on' as read_only"


class PostgresServers:
    """The servers of one URL. The one that was connected to last is tried first."""

    def __init__(self, url: str) -> None:
        with _usable():
            self._url = parse_url(url)
        self._first = 0

    async def connect(self, *, name: str, database: str | None = None, **options: Any) -> asyncpg.Connection:
        """Open a connection. `name` is shown by the server, and `options` are the driver's.

        Raises the driver's error of the last server if none can be connected to. Raises Unavailable if the URL wants a
        server that takes writes and those that answer do not.
        """
        fault: Exception | None = None
        count = len(self._url.hosts)
        for server in [(self._first + step) % count for step in range(count)]:
            try:
                connection = await self._connect(server, name=name, database=database, options=options)
            except Exception as error:
                if count == 1 or not (is_away(error) or isinstance(error, Unavailable)):
                    raise
                # That a server is a standby says more than that another one is away.
                fault = fault if isinstance(fault, Unavailable) else error
            else:
                self._first = server
                return connection
        assert fault is not None
        raise fault

    async def _connect(
        self, server: int, *, name: str, database: str | None, options: dict[str, Any]
    ) -> asyncpg.Connection:
        arguments = self._url.arguments(server) | options
        if database is not None:
            arguments["database"] = database
        settings = SETTINGS | {"application_name": self._url.application(name)} | arguments["server_settings"]
        if self._url.parameters.get("sslrootcert") == SYSTEM:
            arguments |= _by_system(self._url.parameters)
        with _usable():
            # A file that vanished would look like a socket that is missing.
            check_files(self._url)
        with self._explaining():
            connection = await asyncpg.connect(
                **arguments | {"server_settings": settings}, timeout=self._url.connect_seconds
            )
        try:
            keep_alive(connection, self._url.parameters)
            await self._admit(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Replace errors that name no cause, or that look like errors of a statement."""
        try:
            yield
        except (ConnectionResetError, asyncpg.ConnectionDoesNotExistError) as error:
            raise Unavailable(CLOSED_AT_ONCE) from error
        except (*UNACCEPTED, asyncpg.ProtocolViolationError) as error:
            # A pooler has this code for servers that are away, too.
            if not isinstance(error, UNACCEPTED) and STARTUP_PARAMETER not in str(error):
                raise
            subject = "`options` of its URL" if "options" in self._url.parameters else "this connection"
            raise Misconfigured(f"the database refuses {subject}: {in_a_line(error)}") from error

    async def _admit(self, connection: asyncpg.Connection) -> None:
        target = self._url.target
        if target == "any":
            return
        async with asyncio.timeout(self._url.connect_seconds):
            row = await _asked(connection)
        if row["standby"] or target == "read-write":
            raise_unless_writable(row)


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise Unavailable(f"the URL of the database can't be used: {error}") from None


async def _asked(connection: asyncpg.Connection) -> asyncpg.Record:
    """Ask within a transaction: a pooler in transaction mode separates the two messages of a statement otherwise."""
    await connection.execute("begin")
    row = await connection.fetchrow(WRITABLE)
    await connection.execute("commit")
    return row


def raise_unless_writable(row: Mapping[str, bool]) -> None:
    """Raise Unavailable by the answer to WRITABLE. That a server answers at all says nothing."""
    if row["standby"]:
        raise Unavailable(STANDBY)
    if row["read_only"]:
        raise Unavailable(READ_ONLY)


def keep_alive(connection: asyncpg.Connection, parameters: Mapping[str, str]) -> None:
    """Let the system notice a server that vanished without a word. The driver has no setting for this."""
    # The driver publishes neither its transport nor its socket.
    plug = connection._transport.get_extra_info("socket")  # noqa: SLF001
    if plug is None or plug.family == socket.AF_UNIX or parameters.get("keepalives") == "0":
        return
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for parameter, (name, default) in KEEPALIVE.items():
        given = int(parameters.get(parameter, "0"))
        if (option := getattr(socket, name, None)) is not None:
            plug.setsockopt(socket.IPPROTO_TCP, option, given if given > 0 else default)


def _by_system(parameters: Mapping[str, str]) -> dict[str, Any]:
    """The driver's arguments for `sslrootcert=system`, which it does not know: all that it reads in a DSN otherwise."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["postgresql"])
    context.minimum_version = _version(parameters.get("ssl_min_protocol_version", LOWEST_TLS))
    if highest := parameters.get("ssl_max_protocol_version"):
        context.maximum_version = _version(highest)
    if revoked := parameters.get("sslcrl"):
        context.load_verify_locations(cafile=revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    if certificate := parameters.get("sslcert"):
        context.load_cert_chain(
            certificate, parameters.get("sslkey"), password=lambda: parameters.get("sslpassword", "")
        )
    return {"ssl": context, "direct_tls": parameters.get("sslnegotiation") == "direct"}


def _version(name: str) -> ssl.TLSVersion:
    return ssl.TLSVersion[name.replace(".", "_")]
