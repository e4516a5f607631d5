"""As the first process of a container, which has no default for any signal and nobody above it to end it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.folders import ROOT
from tests.support.ports import free_port
from tests.support.service import HEALTH, answers, environment, wait_until

ALONE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
IN_MEMORY = {
    "DAIRA_DATABASE_URL": "memory://",
    "DAIRA_QUEUE_URL": "memory://",
    "DAIRA_BLOB_URL": "memory://",
    "DAIRA_ROLE": "all",
    "DAIRA_OCR": "null",
}


@contextmanager
def first_process(*command: str, port: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Someone outside, and the process that is number one inside, by its number outside."""
    env = environment(DAIRA_PORT=str(port), **IN_MEMORY)
    with subprocess.Popen([*ALONE, *command], cwd=ROOT, env=env) as outside:
        children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
        try:
            wait_until(lambda: bool(children.read_text().split()), seconds=10)
            yield outside, int(children.read_text().split()[0])
        finally:
            outside.kill()


@pytest.fixture
def port() -> int:
    return free_port()


def test_it_drains_and_leaves_at_sigterm(port: int) -> None:
    with first_process(sys.executable, "-m", "app", "serve", port=port) as (outside, inside):
        wait_until(lambda: answers(f"http://127.0.0.1:{port}{HEALTH}"), seconds=60)
        os.kill(inside, signal.SIGTERM)
        assert outside.wait(timeout=30) == 0


def test_it_leaves_at_a_sigterm_that_comes_while_it_still_starts(port: int) -> None:
    with first_process(sys.executable, "-m", "app", "serve", port=port) as (outside, inside):
        wait_until(lambda: handles_sigterm(inside), seconds=30)
        os.kill(inside, signal.SIGTERM)
        assert outside.wait(timeout=30) == 128 + signal.SIGTERM


def handles_sigterm(pid: int) -> bool:
    """What the kernel says of it."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(mask, 16) & (1 << (signal.SIGTERM - 1)))


@pytest.mark.parametrize("sink", ["a pipe that nobody reads any more", "a full disk"])
def test_with_a_log_that_takes_nothing_it_serves_and_stops_when_told(sink: str, port: int) -> None:
    reader, writer = os.pipe() if sink.startswith("a pipe") else (None, os.open("/dev/full", os.O_WRONLY))
    env = environment(DAIRA_PORT=str(port), DAIRA_HOST="::", **IN_MEMORY)
    with subprocess.Popen([sys.executable, "-m", "app", "serve"], cwd=ROOT, env=env, stderr=writer) as process:
        os.close(writer)
        try:
            wait_until(lambda: answers(f"http://127.0.0.1:{port}{HEALTH}"), seconds=60)
            if reader is not None:
                os.close(reader)
            # `::` is both families, as a cluster of either needs it.
            assert answers(f"http://[::1]:{port}/readyz")
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
