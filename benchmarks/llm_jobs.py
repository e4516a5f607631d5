"""Jobs that wait for a language model: their number at a time, their effect on other jobs, and an outage.

Run: ./daira bench llm_jobs [slots] [beside] [outage]

A scripted server stands in for the model (tests/support/llm_server.py), the rest is the program itself (`daira up`).

slots   200 jobs against a server that answers after 2 s: answers a second with 16 slots, and with one (20 jobs)
beside  pages of scans read a second, without and with 16 slots that wait for the model; the service's memory, MiB
outage  500 jobs, and the server away for 60 s in their middle: how they end, failures of each, answers to each
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from tests.support.folders import open_folder
from tests.support.llm_server import LlmServer
from tests.support.sample_documents import SENTENCE, Sheet, drawn, pdf
from tests.support.service import up

ENDED = {"done", "failed", "cancelled"}
SCANS = 24
BEFORE = 150
"""Answers before the server is stopped."""


class Run:
    """A running program with a model, and a document whose text has been read."""

    def __init__(self, client: httpx.AsyncClient, server: LlmServer, pid: int) -> None:
        self.client = client
        self.server = server
        self.pid = pid

    async def ask(self, count: int) -> list[str]:
        """Start jobs, each with a question of its own, and return their ids."""
        document = await self.upload(b"A letter of one line.\n", "letter.txt")
        await self.ended(document["jobs"][0]["id"])
        jobs = []
        for number in range(count):
            answer = await self.client.post(
                f"/v1/documents/{document['id']}/jobs", json={"kind": "ask", "question": f"Question {number}?"}
            )
            answer.raise_for_status()
            jobs.append(answer.json()["id"])
        return jobs

    async def upload(self, content: bytes, name: str) -> dict[str, Any]:
        answer = await self.client.post("/v1/documents", files={"file": (name, content)})
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
        return document

    async def ended(self, job_id: str) -> dict[str, Any]:
        while True:
            job: dict[str, Any] = (await self.client.get(f"/v1/jobs/{job_id}?wait=50")).json()
            if job["state"] in ENDED:
                return job

    async def all_ended(self, job_ids: Sequence[str]) -> list[dict[str, Any]]:
        jobs = []
        for job_id in job_ids:
            jobs.append(await self.ended(job_id))
            print(f"\r{len(jobs)} of {len(job_ids)} jobs ", end="", file=sys.stderr)
        print("\r" + " " * 30 + "\r", end="", file=sys.stderr)
        return jobs

    def resident(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


@asynccontextmanager
async def a_run(*, slots: int, behaviour: str) -> AsyncIterator[Run]:
    server = LlmServer(default=behaviour)
    await server.start()
    with open_folder() as folder:
        settings = {
            "DAIRA_LLM_BASE_URL": server.url,
            "DAIRA_LLM_MODEL": "scripted",
            "DAIRA_LANES": f"ocr=2,llm={slots}",
            "DAIRA_LOG_LEVEL": "error",
        }
        with up(folder / "data", **settings) as service:
            headers = {"Authorization": f"Bearer {service.api_key}"}
            async with httpx.AsyncClient(base_url=service.url, headers=headers, timeout=60, trust_env=False) as client:
                yield Run(client, server, service.process.pid)
    await server.stop()


async def slots() -> None:
    rates = {}
    for at_once, count in ((1, 20), (16, 200)):
        async with a_run(slots=at_once, behaviour="slow:2") as run:
            jobs = await run.all_ended(await run.ask(count))
        rates[at_once] = count / _span(jobs)
        print(f"{at_once:>3} slots: {count} jobs, {rates[at_once]:.2f} a second, {_states(jobs)}")
    print(f"    ratio {rates[16] / rates[1]:.1f}")


async def beside() -> None:
    async with a_run(slots=16, behaviour="slow:2") as run:
        alone = await _pages_a_second(run, seed=0)
        before = run.resident()
        jobs = await run.ask(400)
        busy = await _pages_a_second(run, seed=1)
        waited = len(run.server.log)
        await run.all_ended(jobs)
        again = await _pages_a_second(run, seed=2)
        print(f"pages a second: alone {alone:.2f}, beside {busy:.2f}, alone again {again:.2f}")
        print(f"    ratio {busy / ((alone + again) / 2):.3f}; {waited} questions were asked meanwhile")
        print(f"memory of the service: {before:.0f} MiB, after {len(jobs)} jobs {run.resident():.0f} MiB")


async def outage() -> None:
    async with a_run(slots=16, behaviour="slow:1") as run:
        asking = asyncio.create_task(run.ask(500))
        while run.server.outcomes.count("answered") < BEFORE:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.1)
        started = time.monotonic()
        print(f"the server goes: {run.server.outcomes.count('answered')} answered, {run.server.active} at it")
        await run.server.down(60)
        jobs = await asking
        ended = await run.all_ended(jobs)
        print(
            f"500 jobs: {_states(ended)}; all ended {time.monotonic() - started - 60:.0f} s after the server's return"
        )
        print(f"    failures: {dict(Counter(job['failures'] for job in ended))}")
        answered = Counter(asked.prompt.text for asked in run.server.log if asked.outcome == "answered")
        print(f"    answers to each question: {dict(Counter(answered.values()))}; requests {len(run.server.log)}")


async def _pages_a_second(run: Run, *, seed: int) -> float:
    scan = pdf(*[Sheet(image=drawn(*[SENTENCE] * 8, f"Number {seed} {n}", size=(1275, 1650))) for n in range(SCANS)])
    document = await run.upload(scan, "scan.pdf")
    job = await run.ended(document["jobs"][0]["id"])
    return SCANS / _span([job])


def _span(jobs: Sequence[dict[str, Any]]) -> float:
    """Seconds from the first start to the last end, by the database's clock."""
    starts, ends = ([datetime.fromisoformat(job[name]) for job in jobs] for name in ("started_at", "finished_at"))
    return (max(ends) - min(starts)).total_seconds()


def _states(jobs: Sequence[dict[str, Any]]) -> dict[str, int]:
    return dict(Counter(job["state"] for job in jobs))


MEASURES = {"slots": slots, "beside": beside, "outage": outage}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("measures", nargs="*", help="slots, beside, outage; none means all")
    for name in arguments.parse_args().measures or MEASURES:
        asyncio.run(MEASURES[name]())


if __name__ == "__main__":
    main()
