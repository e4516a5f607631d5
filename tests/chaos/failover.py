"""A web and two workers, which stay while a server that they depend on is replaced, and uploads meanwhile."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread

import httpx

from tests.support.api_keys import new_key
from tests.support.forked import Forked, program
from tests.support.ports import free_port
from tests.support.service import HEALTH, answers, ended, environment, wait_until

BACK = 15
"""Seconds after the new server takes writes, within which an upload made then is done."""

WORKERS = 2


@dataclass(frozen=True, kw_only=True)
class Process:
    role: str
    process: Forked
    url: str
    log: Path

    def readiness(self) -> tuple[int, str]:
        answer = httpx.get(f"{self.url}/readyz", trust_env=False, timeout=10)
        return answer.status_code, answer.text

    def answers(self, status: int) -> bool:
        return self.readiness()[0] == status

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


@dataclass(kw_only=True)
class Site:
    processes: list[Process]
    api_key: str
    answered: list[dict[str, object]] = field(default_factory=list)
    """Jobs of uploads that were answered 202."""
    refused: int = 0
    """Uploads that were answered 503."""

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.api_key}"}
        return httpx.Client(base_url=self.processes[0].url, headers=headers, timeout=30, trust_env=False)

    @asynccontextmanager
    async def uploading(self) -> AsyncIterator[None]:
        """Uploads, one after the other, in a thread of their own."""
        done, faults = Event(), []

        def work() -> None:
            try:
                with self.client() as client:
                    while not done.wait(0.1):
                        self._upload(client, f"Document {len(self.answered)} at {time.time()}")
            except Exception as error:  # noqa: BLE001 - raised again below
                faults.append(error)

        thread = Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            done.set()
            # An address may be served by this loop.
            await asyncio.to_thread(thread.join)
        assert not faults, faults

    async def all_are(self, status: int, *, seconds: float) -> None:
        def wait() -> None:
            for process in self.processes:
                wait_until(partial(process.answers, status), seconds=seconds)

        await asyncio.to_thread(wait)

    async def done_soon(self) -> float:
        """Seconds until an upload made now is done."""

        def work() -> float:
            started = time.monotonic()
            with self.client() as client:
                while (job := self._upload(client, f"After, {started}")) is None:
                    assert time.monotonic() < started + BACK, "still refused"
                    time.sleep(0.1)
                assert ended(client, job, seconds=BACK)["state"] == "done"
            return time.monotonic() - started

        return await asyncio.to_thread(work)

    def _upload(self, client: httpx.Client, text: str) -> dict[str, object] | None:
        answer = client.post("/v1/documents", files={"file": ("page.txt", text.encode())})
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            self.refused += 1
            return None
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        job: dict[str, object] = answer.json()["jobs"][0]
        self.answered.append(job)
        return job


@asynccontextmanager
async def site(database_url: str, folder: Path, **settings: str) -> AsyncIterator[Site]:
    """A web and two workers, as in production but for the guard."""
    processes = []
    for number, role in enumerate(("web", *["worker"] * WORKERS)):
        port, log = free_port(), folder / f"{number}.log"
        env = environment(
            DAIRA_ROLE=role,
            DAIRA_PORT=str(port),
            DAIRA_DATABASE_URL=database_url,
            DAIRA_BLOB_URL=(folder / "blobs").as_uri(),
            DAIRA_LOG_FORMAT="json",
            DAIRA_LOG_LEVEL="warning",
            **settings,
        )
        log.touch()
        process = program("serve", cwd=folder, env=env, stderr=log)
        processes.append(Process(role=role, process=process, url=f"http://127.0.0.1:{port}", log=log))
    try:
        for each in processes:
            await asyncio.to_thread(wait_until, partial(answers, each.url + HEALTH), seconds=60)
        yield Site(processes=processes, api_key=new_key(database_url))
    finally:
        for each in processes:
            each.process.kill()
            each.process.wait(timeout=60)
