"""Requests and jobs of many tenants on few connections, a good part of them cancelled somewhere in the middle."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import httpx
from sqlalchemy import AdaptedConnection, event

from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.leases import PostgresLeases
from app.domain.ids import DocumentId, TenantId, uuid7
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Outcome
from app.ports.database import Database, Tx
from app.ports.leases import ProgressReporter
from app.services.execution import Execution
from app.services.settling import SettleBatcher
from app.worker.heartbeat import HeldLease, monotonic
from tests.security.tenant_fixtures import InProcessService, TenantFixtures
from tests.support.rig import KIND, LEASE, new_page, ring_of

AT_A_TIME = 12
LATEST = 0.06
"""Seconds until the last cancels: about as long as a request takes here."""

MARK = re.compile(r"mark-\d\d")
"""The tenants' names, which are in whatever text belongs to them."""

UNCLAMPED = """
select coalesce(current_setting('app.tenant_id', true), '') as clamp, (select count(*) from daira.jobs) as rows
"""


@dataclass(kw_only=True)
class Report:
    faults: list[str] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)


@dataclass(kw_only=True)
class Reading:
    """A handler that reads what its tenant has, and writes a page."""

    database: Database
    report: Report
    kind: str = KIND

    async def run(self, job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        tenant, document_id = job.lease.tenant_id, job.document_id
        assert document_id is not None
        async with self.database.begin(tenant) as tx:
            text = str(await tx.documents.newest(limit=5)) + str(await tx.jobs.newest())
        self.report.faults += foreign(text, tenant)

        async def apply(tx: Tx) -> None:
            await tx.pages.replace(DocumentId(document_id), [new_page(text=f"Dear {tenant}")])

        return Done(apply)


def foreign(text: str, tenant: TenantId) -> list[str]:
    return [f"{tenant} has seen {mark}" for mark in set(MARK.findall(text)) - {tenant}]


class DepartingClients:
    """All on the pool of the service's requests."""

    def __init__(self, service: InProcessService, *, seed: int) -> None:
        self._service = service
        self._random = random.Random(seed)  # noqa: S311 - repeatable, no secret
        self.report = Report()
        self.engine: PostgresEngine = service.runtime.documents.database._database._engine  # type: ignore[attr-defined]
        leases = PostgresLeases(self.engine)
        self._execution = Execution(
            database=service.runtime.documents.database,
            leases=leases,
            settling=SettleBatcher(leases),
            handlers={KIND: Reading(database=service.runtime.documents.database, report=self.report)},
            ringing=service.runtime.uploads.ringing,
            refill=self._no_refill,
            metrics=service.runtime.metrics,
            worker="worker",
            lease=LEASE,
        )
        event.listen(self.engine._engine.sync_engine, "checkout", self._checked_out)
        self._tenants: list[tuple[TenantFixtures, dict[str, str]]] = []

    async def move_in(self, count: int) -> None:
        for number in range(count):
            tenant = await self._service.rig.tenant(f"mark-{number:02}")
            fixtures = await self._service.add_fixtures(tenant)
            headers = {"Authorization": f"Bearer {await self._service.key(tenant)}"}
            self._tenants.append((fixtures, headers))

    async def come_and_go(self, count: int) -> None:
        places = asyncio.Semaphore(AT_A_TIME)
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                await places.acquire()
                visit = group.create_task(self._visit())
                visit.add_done_callback(lambda _: places.release())

    async def _visit(self) -> None:
        act = self._random.choice([self._ask, self._ask, self._upload, self._leave_amid_upload, self._work, self._look])
        own, headers = self._random.choice(self._tenants)
        work = asyncio.ensure_future(act(own, headers))
        if self._random.random() < 0.6:
            asyncio.get_running_loop().call_later(self._random.uniform(0, LATEST), work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            self.report.ended["cancelled"] += 1
        except Exception as error:  # noqa: BLE001 - told at the end, with all others
            self.report.faults.append(f"{act.__name__}: {type(error).__name__}: {error}")
        else:
            self.report.ended[act.__name__] += 1

    async def _ask(self, own: TenantFixtures, headers: dict[str, str]) -> None:
        theirs, _ = self._random.choice(self._tenants)
        document, job = f"/v1/documents/{own.document.id}", f"/v1/jobs/{own.done.id}"
        path = self._random.choice(
            ["/v1/documents", "/v1/jobs", document, f"{document}/pages/1", f"{document}/text", job, f"{job}?wait=0.05"]
        )
        self._check(await self._service.client.get(path, headers=headers), own)
        if theirs is not own:
            answer = await self._service.client.get(f"/v1/documents/{theirs.document.id}/pages", headers=headers)
            self._expect(answer.status_code == httpx.codes.NOT_FOUND, f"{own.tenant_id} was answered {answer}")

    async def _upload(self, own: TenantFixtures, headers: dict[str, str]) -> None:
        file = (f"{own.tenant_id}.pdf", b"%PDF-1.7 " + uuid7().hex.encode())
        answer = await self._service.client.post("/v1/documents", files={"file": file}, headers=headers)
        self._check(answer, own)
        answer = await self._service.client.post(f"/v1/jobs/{answer.json()['jobs'][0]['id']}/cancel", headers=headers)
        self._check(answer, own)

    async def _leave_amid_upload(self, _: TenantFixtures, headers: dict[str, str]) -> None:
        """A client that is gone: the server is not cancelled, but told so where it reads."""
        sent = [{"type": "http.request", "body": b"--x\r\nContent-Disposition: form-data", "more_body": True}]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/documents",
            "query_string": b"",
            "headers": [
                (b"authorization", headers["Authorization"].encode()),
                (b"content-type", b"multipart/form-data; boundary=x"),
            ],
        }

        async def receive() -> dict[str, object]:
            await asyncio.sleep(0)
            return sent.pop() if sent else {"type": "http.disconnect"}

        async def send(_: object) -> None:
            await asyncio.sleep(0)

        await self._service.app(scope, receive, send)

    async def _work(self, own: TenantFixtures, _: dict[str, str]) -> None:
        """As a worker does, and one that is stopped at once."""
        job = await self._service.rig.enqueue(own.tenant_id, document_id=own.document.id, dedup_key=uuid7().hex)
        for claim in await self._execution.claim([ring_of(job)], kinds=frozenset({KIND})):
            if claim.job is not None:
                await self._execution.run(claim.job, HeldLease(claim.job.lease, claimed_at=monotonic(), length=LEASE))

    async def _look(self, _: TenantFixtures, __: dict[str, str]) -> None:
        for row in await self.engine.call(UNCLAMPED):
            self._expect(row["clamp"] == "" and row["rows"] == 0, f"without a clamp: {dict(row)}")

    def _check(self, answer: httpx.Response, own: TenantFixtures) -> None:
        self._expect(answer.is_success, f"{answer.request.url}: {answer.status_code} {answer.text}")
        self._expect(not answer.is_success or answer.text != "", "an empty answer")
        self.report.faults += foreign(answer.text, own.tenant_id)

    def _expect(self, holds: bool, fault: str) -> None:  # noqa: FBT001 - reads as a statement
        if not holds:
            self.report.faults.append(fault)

    def _checked_out(self, connection: AdaptedConnection, _record: object, _proxy: object) -> None:
        if connection.driver_connection.is_in_transaction():
            self.report.faults.append("a connection was handed out in a transaction")

    async def _no_refill(self, tenant_id: TenantId) -> None: ...


async def eventually(condition: Callable[[], Awaitable[bool]], *, within: timedelta) -> bool:
    """Whether it held before the time was over."""
    deadline = monotonic() + within.total_seconds()
    while not (held := await condition()) and monotonic() < deadline:
        await asyncio.sleep(0.05)
    return held
