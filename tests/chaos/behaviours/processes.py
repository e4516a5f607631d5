"""Processes that work, seen from outside: their signals and statuses, their logs, and what they answer by HTTP."""

import asyncio
import inspect
import json
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.chaos.behaviours import worker as worker_module
from tests.support.folders import ROOT
from tests.support.forked import Forked, Surroundings, fork

STARTING = 60
"""Seconds that processes may take to start on a busy machine: no figure of the table."""

_TLS = ssl.create_default_context()
"""Made once: it is never used, and takes longer than the requests."""


async def eventually(look: Callable[[], object], *, within: float, every: float = 0.05) -> Any:
    """What is seen, or what a coroutine sees, as soon as Python calls it true."""
    deadline = time.monotonic() + within
    while True:
        seen = look()
        seen = await seen if inspect.isawaitable(seen) else seen
        if seen:
            return seen
        assert time.monotonic() < deadline, f"not within {within} s"
        await asyncio.sleep(every)


@dataclass(frozen=True, kw_only=True)
class Worker:
    running: "Forked | subprocess.Popen[bytes]"
    file: Path
    """Of its log."""

    @property
    def pid(self) -> int:
        return self.running.pid

    def send(self, number: signal.Signals) -> None:
        self.running.send_signal(number)

    async def ended(self, *, within: float) -> int:
        """Its status; what a signal ended is negative."""
        await eventually(lambda: self.running.poll() is not None, within=within)
        status = self.running.poll()
        assert status is not None
        return status

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [each for each in events if each["event"] == event]

    def starts(self) -> bool:
        """Whether it is still on its way; one that ended on it is an error."""
        assert self.running.poll() is None, f"a worker ended at its start:\n{self.file.read_text()[-4000:]}"
        return not self.logged("service_ready")

    async def get(self, path: str, *, patience: float = 5, key: str = "") -> httpx.Response:
        async with self._client(key, patience=patience) as client:
            return await client.get(path)

    async def post(self, path: str, *, key: str, **body: Any) -> httpx.Response:
        async with self._client(key, patience=30) as client:
            return await client.post(path, **body)

    def _client(self, key: str, *, patience: float) -> httpx.AsyncClient:
        (ready,) = self.logged("service_ready")
        return httpx.AsyncClient(
            base_url=f"http://{ready['address']}",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=patience,
            verify=_TLS,
            trust_env=False,
        )

    async def ready(self) -> int:
        try:
            return (await self.get("/readyz", patience=10)).status_code
        except httpx.TransportError:
            return 0

    async def metric(self, name: str, **labels: str) -> float:
        text = (await self.get("/metrics", patience=30)).text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return sum(each.value for each in samples if each.name == name and labels.items() <= each.labels.items())


async def total(workers: Sequence[Worker], name: str, **labels: str) -> float:
    """A metric over several workers."""
    return sum([await worker.metric(name, **labels) for worker in workers])


def work(env: dict[str, str], file: Path) -> Forked:
    return fork(_work, (), Surroundings(cwd=ROOT, env=env, stdout=file, stderr=file))


def _work(_arguments: Sequence[str]) -> None:
    worker_module.main()


def spawn(env: dict[str, str], file: Path) -> "subprocess.Popen[bytes]":
    with file.open("ab") as log:
        command = [sys.executable, "-P", "-m", "tests.chaos.behaviours.worker"]
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)
