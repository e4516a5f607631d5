"""One data directory: made once and whole, swept of what a crash left, and the command that serves it."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from app.embedded.account import ServerUnavailable
from app.embedded.binaries import PostgresBinaries
from app.embedded.files import make_private
from app.embedded.paths import SOCKET, ClusterPaths

SUPERUSER = "postgres"

BUILTIN_LOCALE_SINCE = 17
"""The builtin C.UTF-8 sorts and folds alike on every system; before it plain C is the only such locale."""

_SETTINGS = (
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "max_connections=200",
    # The log must not hold what the rows hold: no statements, no DETAIL lines. The client still gets both.
    "log_min_error_statement=panic",
    "log_error_verbosity=terse",
)
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresCluster:
    places: ClusterPaths
    binaries: PostgresBinaries
    durable: bool

    @property
    def data(self) -> Path:
        return self.places.data(self.binaries.major)

    def initialise(self, *, lock: int) -> None:
        """Under a name of its own, then renamed: what has the final name is whole.

        `lock` is the server lock: an initdb whose starter is killed keeps it, so no later start meets one at work.
        """
        for leftover in self.data.parent.glob(f"{self.data.name}.new.*"):
            shutil.rmtree(leftover)
        if (self.data / "PG_VERSION").exists():
            return
        fresh = self.data.with_name(f"{self.data.name}.new.{os.getpid()}")
        make_private(fresh, account=self.places.account)
        done = self.places.account.run(self._initdb(fresh), cwd=fresh, pass_fds=(lock,))
        if done.returncode:
            raise ServerUnavailable(f"initdb failed in {self.places.base}:\n{done.stdout[-2000:]}")
        fresh.rename(self.data)
        if self.durable:
            _sync(self.data.parent)

    def command(self) -> list[str]:
        """Settings stand on the command line, not in a file: the next start may be with others."""
        settings = [*_SETTINGS, f"unix_socket_directories={self.places.run}"]
        if self.binaries.has_pg_stat_statements:
            settings.append("shared_preload_libraries=pg_stat_statements")
        if not self.durable:
            settings.extend(_FAST)
        options = [part for setting in settings for part in ("-c", setting)]
        return [str(self.binaries.bin / "postgres"), "-D", str(self.data), "-p", "5432", *options]

    def stop(self) -> None:
        """Ask a postmaster to go that lost its keeper; as its own account, since the pid comes from its own file."""
        self.places.account.run([self.binaries.bin / "pg_ctl", "stop", "-D", self.data, "-m", "fast", "-t", "30"])

    def sweep(self) -> None:
        """Remove the traces of a dead server; the caller holds the server lock, so none of ours is alive.

        PostgreSQL itself takes a pid that was given to another process since for a running server.
        """
        pid_file = self.data / "postmaster.pid"
        if pid_file.exists() and self._is_served_by(pid_file.read_text().split("\n", 1)[0].strip()):
            raise ServerUnavailable(f"somebody started PostgreSQL on {self.data} by hand: stop it first")
        for trace in (pid_file, self.places.socket, self.places.run / f"{SOCKET}.lock"):
            trace.unlink(missing_ok=True)

    def _is_served_by(self, pid: str) -> bool:
        # A postmaster's working directory is its data directory. Where there is no /proc, PostgreSQL still refuses:
        # it finds the shared memory of the other one in use.
        try:
            return pid.isdigit() and Path(f"/proc/{pid}/cwd").readlink() == self.data
        except OSError:
            return False

    def _initdb(self, directory: Path) -> list[str | Path]:
        locale = ["--locale=C"]
        if self.binaries.major >= BUILTIN_LOCALE_SINCE:
            locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        command: list[str | Path] = [self.binaries.bin / "initdb", "-D", directory, "-U", SUPERUSER, "-A", "trust"]
        return [*command, "-E", "UTF8", *locale, "--no-instructions", *([] if self.durable else ["--no-sync"])]


def _sync(directory: Path) -> None:
    """Without it a power cut may take back the rename, and with it all that was committed since."""
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
