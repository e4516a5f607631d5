"""A Postgres as an operator has it: on a port of loopback, nobody let in without a password, everything durable."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.embedded import account as accounts
from app.embedded import binaries
from app.embedded.account import ServiceAccount, environment
from app.embedded.files import make_private
from tests.support.folders import open_folder
from tests.support.ports import free_port
from tests.support.service import using, wait_until

# Its end with its parent is asked for last: a change of the account forgets it. SIGINT is a fast shutdown.
LAUNCHER = """
import ctypes, os, sys
parent, uid, gid, *command = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 2)
    if os.getppid() != int(parent):
        os._exit(1)
os.execv(command[0], command)
"""

STARTING = 60
"""Seconds, on a busy machine."""


@contextmanager
def running_postgres(*, password: str, sockets: Sequence[Path] = ()) -> Iterator[int]:
    """Its port. `postgres` is the administrator, with this password; there is nobody else yet.

    `sockets` are folders in which it also listens.
    """
    with open_folder() as folder:
        server = new_server(folder, sockets=sockets)
        server.initialise(password=password)
        server.start()
        try:
            yield server.port
        finally:
            server.stop(signal.SIGTERM)


def new_server(folder: Path, *, sockets: Sequence[Path] = ()) -> "TcpPostgres":
    account = accounts.unprivileged_account(None) if os.geteuid() == 0 else accounts.current_account()
    programs = binaries.find_binaries(None).for_account(account, shelf=folder).bin
    return TcpPostgres(programs=programs, data=folder / "data", account=account, port=free_port(), sockets=sockets)


@dataclass(kw_only=True)
class TcpPostgres:
    programs: Path
    data: Path
    account: ServiceAccount
    port: int
    sockets: Sequence[Path] = ()
    process: "subprocess.Popen[bytes] | None" = None

    def initialise(self, *, password: str) -> None:
        make_private(self.data, account=self.account)
        secret = self.data.with_name("password")
        secret.write_text(password)
        options = ["-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8"]
        self._run("initdb", "-D", self.data, "-U", "postgres", *options)

    def copy(self, url: str) -> None:
        """Become a standby of the server at this URL, whatever this one has been. It must be stopped."""
        shutil.rmtree(self.data, ignore_errors=True)
        make_private(self.data, account=self.account)
        self._run("pg_basebackup", "-D", self.data, "-d", url, "-X", "stream", "-c", "fast", "-R")

    def start(self) -> None:
        """Return once it takes sessions."""
        process = self.process = self._spawn()
        wait_until(lambda: process.poll() is not None or self._is_ready(), seconds=STARTING)
        assert process.poll() is None, self._log.read_text()

    def stop(self, how: signal.Signals) -> None:
        """SIGINT is a fast shutdown, SIGQUIT an immediate one."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(timeout=STARTING)
            wait_until(lambda: not using(self.data), seconds=STARTING)

    @property
    def _log(self) -> Path:
        return self.data.with_name("log")

    def _spawn(self) -> "subprocess.Popen[bytes]":
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": ",".join(map(str, self.sockets)),
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        account = map(str, (os.getpid(), self.account.uid, self.account.gid))
        arguments = [*account, str(self.programs / "postgres"), "-D", str(self.data)]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", LAUNCHER, *arguments, *options],
                cwd="/",
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = self.account.run([self.programs / program, *arguments])
        assert done.returncode == 0, done.stdout

    def _is_ready(self) -> bool:
        asked: list[str | Path] = [self.programs / "pg_isready", "-h", "127.0.0.1", "-p", str(self.port), "-q"]
        return accounts.current_account().run(asked).returncode == 0
