"""The measured servers: each a process of its own on a free port, all on one database."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.api_keys import new_key
from tests.support.databases import Cloned
from tests.support.folders import ROOT
from tests.support.ports import free_port
from tests.support.service import command, environment

TENANT = "acme"


@dataclass(frozen=True, kw_only=True)
class Server:
    url: str
    pid: int
    key: str
    """An API key of TENANT."""

    def cpu_seconds(self) -> float:
        """The CPU seconds of the process so far, including its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def daira(cloned: Cloned, folder: Path, *, core: int | None = None, **settings: str) -> Iterator[Server]:
    """Run `daira serve` with a tenant and its key, made for the first server. `core` pins it to one processor."""
    ours = {
        "DAIRA_DATABASE_URL": cloned.app_url,
        "DAIRA_BLOB_URL": (folder / "blobs").as_uri(),
        "DAIRA_MAX_QUEUED_JOBS": "1000000",
        "DAIRA_REQUESTS_PER_MINUTE": "100000000",
        "DAIRA_LOG_LEVEL": "error",
        **settings,
    }
    key = folder / "key"
    if not key.exists():
        key.write_text(new_key(cloned.app_url, TENANT))
    port = free_port()
    with _process(command("serve"), environment(DAIRA_PORT=str(port), **ours), port=port, core=core) as process:
        yield Server(url=f"http://127.0.0.1:{port}", pid=process.pid, key=key.read_text())


@contextmanager
def bare(cloned: Cloned, folder: Path, *, durable: bool) -> Iterator[Server]:
    """Run the bare service; `durable` makes it wait for the disk."""
    port = free_port()
    words = ["-m", "uvicorn", "benchmarks.web.bare:app", "--port", str(port), "--no-access-log", "--log-level", "error"]
    settings = {
        "PYTHONPATH": str(ROOT),
        "BARE_DATABASE_URL": cloned.app_url,
        "BARE_TENANT": TENANT,
        "BARE_FOLDER": str(folder),
        "BARE_DURABLE": str(durable).lower(),
    }
    with _process([sys.executable, *words], dict(os.environ) | settings, port=port) as process:
        yield Server(url=f"http://127.0.0.1:{port}", pid=process.pid, key="none is asked for")


@contextmanager
def _process(
    words: Sequence[str], env: Mapping[str, str], *, port: int, core: int | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(words, env=dict(env))
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        _await_answer(process, port)
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def _await_answer(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"a server ended unexpectedly with status {process.returncode}")
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("a server did not answer within a minute")
