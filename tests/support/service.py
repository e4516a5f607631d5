"""The program itself as a process, started as a user starts it."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.api_keys import new_key
from tests.support.databases import Cloned
from tests.support.folders import ROOT, open_folder
from tests.support.forked import Forked, program
from tests.support.ports import free_port

HEALTH = "/healthz"

_TLS = ssl.create_default_context()
"""Made once: it is never used, and takes longer than a request."""


def environment(**settings: str) -> dict[str, str]:
    """This process's, without settings of whoever runs the tests, and with those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DAIRA_")}
    # One engine: tests of the second ask for it, all others would only wait for it.
    ours = {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1", "DAIRA_OCR": "tesseract"}
    return kept | ours | settings


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "app", *arguments]


def run(*arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """The command to its end."""
    with open_folder() as folder:
        printed = [folder / "stdout", folder / "stderr"]
        for file in printed:
            file.touch()
        process = program(*arguments, cwd=cwd, env=environment(**settings), stdout=printed[0], stderr=printed[1])
        try:
            status = process.wait(timeout=60)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, status, *(file.read_text() for file in printed))


@dataclass(frozen=True, kw_only=True)
class Service:
    process: "subprocess.Popen[bytes] | Forked"
    data_dir: Path
    url: str
    api_key: str
    database_url: str

    def client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.api_key}"}, timeout=30, trust_env=False
        )

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=60)


@contextmanager
def up(data_dir: Path, **settings: str) -> Iterator[Service]:
    """`daira up` on a free port; stopped at the end, unless the test has done so."""
    arguments = ("up", "--port", "0", "--data-dir", str(data_dir))
    process = program(*arguments, cwd=data_dir.parent, env=environment(**settings), stdout=Path(os.devnull))
    try:
        yield _ready(process, data_dir)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        # The server follows its last user; it must be gone before its folder is.
        wait_until(lambda: not using(data_dir), seconds=30)


@contextmanager
def serving(cloned: Cloned, folder: Path, *, application: str = "", **settings: str) -> Iterator[Service]:
    """`daira serve`, or another application, in one process on a database of the test's, with a tenant and its key."""
    with serving_again(cloned, folder, api_key=new_key(cloned.app_url), application=application, **settings) as service:
        yield service


@contextmanager
def serving_again(
    cloned: Cloned, folder: Path, *, api_key: str, application: str = "", **settings: str
) -> Iterator[Service]:
    """The same where tenant and key are there already: after a crash, or beside another process."""
    ours = {"DAIRA_DATABASE_URL": cloned.app_url, "DAIRA_BLOB_URL": (folder / "blobs").as_uri(), **settings}
    port = free_port()
    env = environment(DAIRA_PORT=str(port), DAIRA_LOG_LEVEL="error", **ours)
    uvicorn = [sys.executable, "-P", "-m", "uvicorn", application, "--port", str(port), "--log-level", "error"]
    process = subprocess.Popen(uvicorn, cwd=folder, env=env) if application else program("serve", cwd=folder, env=env)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is not None or answers(url + HEALTH), seconds=60)
        yield Service(process=process, data_dir=folder, url=url, api_key=api_key, database_url=cloned.app_url)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def _ready(process: Forked, data_dir: Path) -> Service:
    left: dict[str, Any] = {}

    def told() -> bool:
        nonlocal left
        assert process.poll() is None, f"`daira up` ended with status {process.returncode}"
        if (data_dir / "dev.json").exists():
            left = json.loads((data_dir / "dev.json").read_text())
        # A file left by a killed predecessor may name a port that nobody serves.
        return bool(left) and answers(left["url"] + HEALTH)

    wait_until(told, seconds=60)
    return Service(
        process=process,
        data_dir=data_dir,
        url=left["url"],
        api_key=left["api_key"],
        database_url=left["database_url"],
    )


def install(folder: Path) -> None:
    """`daira`, on this very environment: the launcher's last line, for it would look after its packages first."""
    program = folder / "daira"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -P -m app "$@"\n')
    program.chmod(0o755)


def answers(url: str, *, timeout: float = 5) -> bool:
    """Whether somebody is there, and is well."""
    try:
        return httpx.get(url, trust_env=False, timeout=timeout, verify=_TLS).is_success
    except httpx.TransportError:
        return False


def wait_until(condition: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def upload(client: httpx.Client, content: bytes, *, name: str = "page.pdf", **fields: str) -> Mapping[str, Any]:
    answer = client.post("/v1/documents", files={"file": (name, content)}, data=fields)
    assert answer.status_code in {200, 202}, answer.text
    body: Mapping[str, Any] = answer.json()
    return body


def ended(client: httpx.Client, job: Mapping[str, Any], *, seconds: float = 30) -> Mapping[str, Any]:
    answer = client.get(f"/v1/jobs/{job['id']}", params={"wait": seconds}, timeout=seconds + 30)
    body: Mapping[str, Any] = answer.json()
    assert body["state"] in {"done", "failed", "cancelled"}, body
    return body


def using(folder: Path) -> list[int]:
    """Processes that name the folder on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if str(folder).encode() in line:
            found.append(int(entry.name))
    return found
