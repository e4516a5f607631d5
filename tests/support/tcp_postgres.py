"""A Postgres as an operator has it: on a port of loopback, nobody let in without a password, everything durable."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    account = accounts.unprivileged_account(None) if os.geteuid() == 0 else accounts.current_account()
    with open_folder() as folder:
        programs = binaries.find_binaries(None).for_account(account, shelf=folder)
        data, port = folder / "data", free_port()
        _initialise(programs.bin, data, account=account, password=password)
        process = _spawn(programs.bin, data, account=account, port=port, sockets=sockets)
        try:
            wait_until(lambda: process.poll() is not None or _is_ready(programs.bin, port), seconds=STARTING)
            assert process.poll() is None, (folder / "log").read_text()
            yield port
        finally:
            process.terminate()
            process.wait(timeout=STARTING)
            wait_until(lambda: not using(data), seconds=STARTING)


def _initialise(programs: Path, data: Path, *, account: ServiceAccount, password: str) -> None:
    make_private(data, account=account)
    secret = data.with_name("password")
    secret.write_text(password)
    done = account.run(
        [programs / "initdb", "-D", data, "-U", "postgres", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8"]
    )
    assert done.returncode == 0, done.stdout


def _spawn(
    programs: Path, data: Path, *, account: ServiceAccount, port: int, sockets: Sequence[Path]
) -> "subprocess.Popen[bytes]":
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": ",".join(map(str, sockets)),
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    arguments = [*map(str, (os.getpid(), account.uid, account.gid)), str(programs / "postgres"), "-D", str(data)]
    with data.with_name("log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, *arguments, *options],
            cwd="/",
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _is_ready(programs: Path, port: int) -> bool:
    asked: list[str | Path] = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-q"]
    return accounts.current_account().run(asked).returncode == 0
