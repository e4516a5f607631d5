"""A real PgBouncer in transaction mode in front of a test's server. Debian's package; `.ci/run` installs it."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.deployments import DEPLOY
from tests.support.folders import open_folder
from tests.support.ports import free_port
from tests.support.service import wait_until

DEPLOYED = DEPLOY / "compose" / "pgbouncer.ini"

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
    parts = urlsplit(url)
    server = parse_qs(parts.query)["host"][0]
    with open_folder() as folder:
        (folder / "users").write_text('"daira_app" ""\n')
        (folder / "pgbouncer.ini").write_text(CONFIGURATION.format(server=server, folder=folder, size=size))
        folder.chmod(0o777)
        # It must be let into the server's folder.
        with _running(folder / "pgbouncer.ini", account=Path(server).owner()):
            wait_until(lambda: _accepts(folder / ".s.PGSQL.6432"), seconds=10)
            yield f"postgresql://{parts.username}@{parts.path}?host={folder}&port=6432"


@contextmanager
def deployed(*, postgres: int, users: str) -> Iterator[int]:
    """Its port on loopback: with what compose has for it, but for the addresses and the users."""
    port = free_port()
    with open_folder() as folder:
        (folder / "users").write_text(users)
        here = {
            "host=postgres port=5432": f"host=127.0.0.1 port={postgres}",
            "listen_addr = *": "listen_addr = 127.0.0.1",
            "listen_port = 6432": f"listen_port = {port}",
            "/etc/pgbouncer/users.txt": str(folder / "users"),
        }
        configuration = DEPLOYED.read_text()
        for there, replaced in here.items():
            assert there in configuration
            configuration = configuration.replace(there, replaced)
        (folder / "pgbouncer.ini").write_text(configuration)
        with _running(folder / "pgbouncer.ini", account="nobody"):
            wait_until(lambda: _accepts(("127.0.0.1", port)), seconds=10)
            yield port


@contextmanager
def _running(configuration: Path, *, account: str) -> Iterator[None]:
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    assert program, "PgBouncer is missing; on Debian: apt-get install pgbouncer"
    # It refuses to be root.
    as_somebody = ["-u", account] if os.geteuid() == 0 else []
    process = subprocess.Popen([program, *as_somebody, "-q", str(configuration)])
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=10)


def _accepts(address: Path | tuple[str, int]) -> bool:
    with socket.socket(socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET) as probe:
        return probe.connect_ex(str(address) if isinstance(address, Path) else address) == 0
