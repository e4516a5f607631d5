"""A real PgBouncer in transaction mode in front of the tests' server. Debian's package; `.ci/run` installs it."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.folders import open_folder
from tests.support.service import wait_until

CONFIGURATION = """
[databases]
* = host={server} port=5432
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
unix_socket_mode = 0777
listen_port = 6432
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
logfile = {folder}/log
"""


@contextmanager
def in_front_of(url: str, *, size: int = 3) -> Iterator[str]:
    """The same database and user through the pooler, with at most `size` connections to the server."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    assert program, "PgBouncer is missing; on Debian: apt-get install pgbouncer"
    parts = urlsplit(url)
    server = parse_qs(parts.query)["host"][0]
    with open_folder() as folder:
        (folder / "users").write_text('"daira_app" ""\n')
        (folder / "pgbouncer.ini").write_text(CONFIGURATION.format(server=server, folder=folder, size=size))
        folder.chmod(0o777)
        process = subprocess.Popen([program, *_account(Path(server)), "-q", str(folder / "pgbouncer.ini")])
        try:
            wait_until(lambda: _accepts(folder / ".s.PGSQL.6432"), seconds=10)
            yield f"postgresql://{parts.username}@{parts.path}?host={folder}&port=6432"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=10)


def _account(server: Path) -> list[str]:
    """It refuses to be root, and must be let into the server's folder."""
    return ["-u", server.owner()] if os.geteuid() == 0 else []


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
