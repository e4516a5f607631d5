"""S3 and SQS on loopback: ministack, in an environment of its own, for it pins another botocore than ours."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO

from tests.support.environments import programs_of
from tests.support.ports import free_port, listens

PACKAGES = Path(__file__).with_suffix(".txt")

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
        self._python = str(programs_of(PACKAGES) / "python")
        self._port = free_port()
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
        while not (own.exists() and listens(self._port)):
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
