"""Checks of long requests: in a child, within their CPU time, one of a tenant at a time, ended with the client."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from app.domain.errors import Invalid, TooMany, Unavailable
from app.domain.ids import TenantId
from app.reading.function_caller import ProcessCaller
from app.web import job_checks
from app.web.job_checks import JobChecks, is_short
from tests.unit.served import Served, served
from tests.unit.waiting import until

ACME, GLOBEX = TenantId("acme"), TenantId("globex")

PATTERNS = {"type": "object", "properties": {f"p{n}": {"type": "string", "pattern": f"^x{n}$"} for n in range(300)}}
FAULTY = {"type": "object", "properties": {f"p{n}": {"type": "string", "pattern": "("} for n in range(300)}}


def extract(schema: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "extract", "schema": schema}


def staying(*, leaves: asyncio.Event | None = None) -> Request:
    async def receive() -> dict[str, str]:
        await (leaves or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "headers": []}, receive)


@pytest.fixture
async def caller() -> AsyncIterator[ProcessCaller]:
    caller = ProcessCaller(job_checks.FUNCTION, children=1, cpu=timedelta(seconds=2))
    yield caller
    await caller.close()


def children(caller: ProcessCaller) -> list[int]:
    return [child.pid for child in caller._pool._living]


async def test_a_schema_of_many_patterns_is_checked_in_a_child_and_not_here(caller: ProcessCaller) -> None:
    checks = JobChecks(caller)
    text = json.dumps([{"kind": "ocr"}, *[extract(PATTERNS)] * 5])
    assert not is_short(text)
    await checks.requests(staying(), ACME, text)
    spent, before = cpu_of(*children(caller)), time.thread_time()
    requests = await checks.requests(staying(), ACME, text)
    assert [request.kind for request in requests] == ["ocr", *["extract"] * 5]
    assert requests[1].payload["schema"] == PATTERNS
    # Five times 300 patterns take the child a multiple of what waiting for it takes.
    assert cpu_of(*children(caller)) - spent > 2 * (time.thread_time() - before)
    assert checks.turns.idle


async def test_a_faulty_schema_is_refused_in_the_childs_words(caller: ProcessCaller) -> None:
    with pytest.raises(Invalid, match="not valid RE2") as fault:
        await JobChecks(caller).request(staying(), ACME, json.dumps(extract(FAULTY)))
    assert fault.value.pointer is not None
    assert fault.value.pointer.startswith("/schema/properties/p")
    with pytest.raises(Invalid, match="/jobs is not JSON"):
        await JobChecks(caller).requests(staying(), ACME, "[" * 100_000)


async def test_more_cpu_time_than_allowed_is_the_requests_fault_and_the_next_one_is_checked() -> None:
    caller = ProcessCaller(job_checks.FUNCTION, children=1, cpu=timedelta(seconds=0.02))
    try:
        with pytest.raises(Invalid, match="simplify"):
            await JobChecks(caller).requests(staying(), ACME, json.dumps([extract(PATTERNS)] * 13))
        short = extract({"type": "string", "pattern": "a"})
        assert (await JobChecks(caller).request(staying(), ACME, json.dumps(short))).kind == "extract"
    finally:
        await caller.close()


async def test_a_client_that_leaves_ends_the_check(caller: ProcessCaller) -> None:
    leaves = asyncio.Event()
    checks = JobChecks(caller)
    text = json.dumps([extract(PATTERNS)] * 13)
    await checks.requests(staying(), ACME, json.dumps([extract(PATTERNS)]))
    (child,) = children(caller)
    checking = asyncio.create_task(checks.requests(staying(leaves=leaves), ACME, text))
    await until(lambda: checks.turns.working(ACME) == 1)
    leaves.set()
    with pytest.raises(ClientDisconnect):
        await checking
    await until(lambda: child not in children(caller))
    assert checks.turns.idle


class Stuck:
    """A caller whose calls end when told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.end = asyncio.Event()

    async def call(self, argument: dict[str, Any]) -> dict[str, Any] | None:
        self.calls.append(argument["text"])
        await self.end.wait()
        return {"requests": []}


async def test_a_tenants_checks_come_one_after_another_and_in_turn_with_anothers() -> None:
    stuck = Stuck()
    checks = JobChecks(stuck)
    long = json.dumps([extract(PATTERNS)])
    mine = [asyncio.create_task(checks.requests(staying(), ACME, long + " " * n)) for n in range(16)]
    await until(lambda: len(stuck.calls) == 1)
    theirs = asyncio.create_task(checks.requests(staying(), GLOBEX, long + "\n"))
    await until(lambda: checks.turns.waiting(GLOBEX) == 1)
    with pytest.raises(TooMany):
        await checks.requests(staying(), ACME, long)
    stuck.end.set()
    await asyncio.gather(*mine, theirs)
    assert stuck.calls.index(long + "\n") == 2
    assert checks.turns.idle


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kind": "ocr"}),
        json.dumps([{"kind": "ask", "question": "Why?" * 900}]),
        json.dumps(extract({"type": "object", "properties": {"total": {"type": "number"}}})),
        "{",
    ],
)
async def test_what_is_short_needs_no_child(text: str) -> None:
    assert is_short(text)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kind": "ask", "question": "Why?" * 20_000}),
        json.dumps(extract({"pattern": "a"})),
        json.dumps(extract({"enum": list(range(50))})),
        '{"kind":"e\\u0078tract","schema":{}}',
        '{"kind":"extract","schema":{"p\\u0061ttern":"a"}}',
        json.dumps(extract({"title": "x" * 2_000})),
    ],
)
async def test_what_may_take_long_needs_one(text: str) -> None:
    assert not is_short(text)


async def test_a_refused_upload_leaves_no_bytes_and_other_tenants_are_answered_meanwhile() -> None:
    async with served() as web:
        others = await web.key_of("globex")
        jobs = json.dumps([{"kind": "ocr"}, *[extract(FAULTY)] * 8])
        uploading = asyncio.create_task(web.upload(jobs=jobs))
        await until(lambda: web.runtime.checks.turns.working(ACME) == 1)
        assert (await web.client.get("/v1/documents", headers=others)).status_code == 200
        assert not uploading.done()
        assert (await uploading).status_code == 422
        assert web.blobs == []
        await after_an_outage(web, jobs)


async def after_an_outage(web: Served, jobs: str) -> None:
    class Away:
        async def call(self, argument: dict[str, Any]) -> dict[str, Any] | None:
            raise Unavailable(f"no check of {len(argument)} fields")

    web.runtime.checks._caller = Away()
    answer = await web.upload(jobs=jobs)
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
    assert web.blobs == []


def cpu_of(*pids: int) -> float:
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            ticks += sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")
