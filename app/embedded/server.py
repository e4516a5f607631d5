"""A PostgreSQL for development and tests: started by the first process that needs it, stopped after the last one."""

import errno
import os
import socket
import struct
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from app.embedded import binaries, paths
from app.embedded.account import ServerUnavailable
from app.embedded.cluster import SUPERUSER, PostgresCluster
from app.embedded.files import open_private
from app.embedded.locks import POLL, ClusterLocks
from app.embedded.paths import ClusterPaths

_PROBE_PARAMETERS = b"user\0postgres\0database\0postgres\0\0"
# https://www.postgresql.org/docs/current/protocol-message-formats.html: StartupMessage 3.0, Terminate
_STARTUP = struct.pack("!ii", 8 + len(_PROBE_PARAMETERS), 3 << 16) + _PROBE_PARAMETERS
_TERMINATE = b"X\0\0\0\4"
_CANNOT_CONNECT_NOW = b"C57P03\0"
PROBE_TIMEOUT_S = 2.0


def accepts_sessions(path: Path) -> bool:
    """Ask for a session, as pg_isready does: a bare SSLRequest is answered while the server is starting up, too."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PROBE_TIMEOUT_S)
        connection.connect(str(path))
        connection.sendall(_STARTUP)
        reply = connection.recv(1024)
        with suppress(OSError):
            connection.sendall(_TERMINATE)
        # Any other error, such as too many connections, comes from a server at work.
        return reply.startswith(b"R") or (reply.startswith(b"E") and _CANNOT_CONNECT_NOW not in reply)
    return False


PATIENCE = timedelta(seconds=60)
"""For a server to come up, recovery after a crash included, or to go down."""

_TAIL = 2000
_IMPORT_ROOT = Path(__file__).resolve().parents[2]


class EmbeddedPostgres:
    """One share in the server that all processes with the same `home` use together.

    The first of them decides: `durable`, `pg_bin` and `grace` of those that join count for nothing.
    `pg_user` is the account root hands the server to; an existing data directory's owner goes first.
    The kernel returns the share of a process that dies without `close`. A forked child keeps its parent's.
    """

    def __init__(
        self,
        home: Path,
        *,
        durable: bool = True,
        pg_bin: Path | None = None,
        grace: timedelta = timedelta(seconds=5),
        pg_user: str | None = None,
    ) -> None:
        self._home = home.resolve()
        self._durable = durable
        self._pg_bin = pg_bin
        self._grace = grace
        self._pg_user = pg_user
        self._share: int | None = None

    def start(self) -> None:
        """Return once the server takes sessions: 0.1 to 4 s. Again after a crash: start it anew.

        Raises ServerUnavailable, saying what to install or to set.
        """
        try:
            self._places.prepare()
            with self._locks.start.held():
                self._join()
        except OSError as error:
            raise ServerUnavailable(_advice(error, home=self._home)) from error

    def url(self, *, user: str = SUPERUSER, database: str = "postgres") -> str:
        """Without a password: the socket's directory is open to the server's account alone, and to root."""
        return f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?host={self._places.run}"

    def close(self) -> None:
        if self._share is not None:
            os.close(self._share)
            self._share = None

    @cached_property
    def _places(self) -> ClusterPaths:
        return paths.cluster_paths(self._home, pg_user=self._pg_user)

    @cached_property
    def _locks(self) -> ClusterLocks:
        return ClusterLocks(self._places.base)

    def _join(self) -> None:
        with ExitStack() as undo:
            if self._share is None:
                # Before the server is looked at: from here on its keeper does not stop it.
                self._share = self._locks.users.take(shared=True)
                undo.callback(self.close)
            if not self._is_up():
                self._launch()
            undo.pop_all()

    def _is_up(self) -> bool:
        """True once it takes sessions, False once it has no keeper; a server on its way up or down is waited for."""
        deadline = time.monotonic() + PATIENCE.total_seconds()
        while not self._locks.keeper.is_free():
            if accepts_sessions(self._places.socket):
                return True
            if time.monotonic() > deadline:
                raise ServerUnavailable(f"PostgreSQL is still starting or stopping, try again: see {self._places.log}")
            time.sleep(POLL.total_seconds())
        return False

    def _launch(self) -> None:
        self._places.make_run()
        programs = binaries.find_binaries(self._pg_bin)
        programs = programs.for_account(self._places.account, shelf=self._places.shelf)
        cluster = PostgresCluster(places=self._places, binaries=programs, durable=self._durable)
        self._wait_for_the_last(cluster)
        with self._locks.server.held() as lock:
            cluster.sweep()
            cluster.initialise(lock=lock)
        before = self._start_keeper(cluster.command())
        if not self._is_up():
            raise ServerUnavailable(f"PostgreSQL did not start; from {self._places.log}:\n{self._logged_since(before)}")

    def _wait_for_the_last(self, cluster: PostgresCluster) -> None:
        if not self._locks.server.is_free():
            cluster.stop()
        # Backends outlive a killed postmaster for a moment, an initdb its killed starter.
        if not self._locks.server.is_free_within(PATIENCE):
            raise ServerUnavailable(f"an earlier PostgreSQL in {self._places.base} does not end: stop its processes")

    def _start_keeper(self, command: list[str]) -> int:
        """The size of the log before. Our own pipes stay with us: a reader of our output must see its end."""
        account = self._places.account
        order = [self._places.base, self._grace.total_seconds(), account.uid, account.gid, *command]
        log = open_private(self._places.log, flags=os.O_RDWR | os.O_APPEND)
        try:
            before = os.fstat(log).st_size
            subprocess.run(  # noqa: S603 - our own module
                # -P: the working directory may hold another package named app.
                [sys.executable, "-P", "-m", "app.embedded.supervisor", *map(str, order)],
                check=False,
                cwd="/",
                env=os.environ | {"PYTHONPATH": str(_IMPORT_ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        finally:
            os.close(log)
        return before

    def _logged_since(self, before: int) -> str:
        return self._places.log.read_bytes()[before:][-_TAIL:].decode(errors="replace")


def _advice(error: OSError, *, home: Path) -> str:
    if error.errno == errno.EPERM and os.geteuid() == 0:
        return (
            f"this root may not hand PostgreSQL to an ordinary account ({error}): "
            "run as an ordinary user, or set DAIRA_DATABASE_URL to a running server"
        )
    return (
        f"the embedded PostgreSQL can't use {home} ({error}): "
        "set DAIRA_DATA_DIR to a directory of yours, or DAIRA_DATABASE_URL to a running server"
    )
