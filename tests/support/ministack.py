"""S3 and SQS on loopback: ministack, in an environment of its own, for it pins another botocore than ours."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

LIST = Path(__file__).with_suffix(".txt")
"""Hash-pinned; made by
`uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
--no-emit-index-url --no-emit-find-links`."""

PATIENCE = 60
"""Seconds for a start on a busy machine; half a second on an idle one."""

# Its standard input ends with the test process, however that ends.
PROGRAM = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
from ministack.app import main
main()
"""


class Ministack:
    """Forgets everything when it is stopped. Takes any credentials, but checks what is signed with them."""

    def __init__(self) -> None:
        self._python = _environment()
        self._port = _free_port()
        self._folder = tempfile.mkdtemp(prefix="daira-ministack-run-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """On the same port as before, when it was stopped."""
        log_path = Path(self._folder) / "log"
        # Written by a server that found its port free: what listens there is not somebody else's.
        own = Path(self._folder) / f"ministack-{self._port}.pid"
        own.unlink(missing_ok=True)
        with log_path.open("wb") as log:
            self._process = self._spawn(log)
        deadline = time.monotonic() + PATIENCE
        while not (own.exists() and _listens(self._port)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"ministack did not start:\n{log_path.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(self, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        settings = {"GATEWAY_PORT": str(self._port), "BIND_HOST": "127.0.0.1", "SERVICES": "s3,sqs"}
        return subprocess.Popen(
            [self._python, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=self._folder,
            env={"PATH": os.environ.get("PATH", ""), "TMPDIR": self._folder, **settings},
        )


def _environment() -> str:
    """The interpreter of the environment; the first process to come makes it, others wait for that."""
    digest = hashlib.sha256(LIST.read_bytes()).hexdigest()[:12]
    home = Path(tempfile.gettempdir()) / f"daira-ministack-{os.getuid()}-{digest}"
    with _locked(home.with_suffix(".lock")):
        if home.exists() and home.stat().st_uid != os.getuid():
            raise RuntimeError(f"{home} belongs to somebody else: set TMPDIR to a folder of your own")
        made = home / "made"
        if not made.exists():
            shutil.rmtree(home, ignore_errors=True)
            _make(home)
            made.touch()
    return str(home / "bin" / "python")


def _make(home: Path) -> None:
    python = str(home / "bin" / "python")
    install = ["install", "--quiet", "--require-hashes", "-r", str(LIST)]
    if uv := shutil.which("uv"):
        _run(uv, "venv", "--quiet", "--python", sys.executable, str(home))
        _run(uv, "pip", *install, "--python", python)
    else:
        _run(sys.executable, "-m", "venv", str(home))
        _run(python, "-m", "pip", *install, "--disable-pip-version-check")


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ministack can't be installed; {' '.join(command)} said:\n{done.stderr[-2000:]}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
