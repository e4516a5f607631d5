"""Whatever fails in a handler, the job's error is one of our own sentences, and the log has the cause."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from itertools import count
from typing import Any

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError
from structlog.testing import capture_logs

from app.adapters.memory.blobs import MemoryBlobs
from app.domain.documents import blob_key
from app.domain.errors import AttemptOver, Conflict, DocumentFault, Invalid, NotFound, Unavailable
from app.domain.ids import JobId, uuid7
from app.domain.job_errors import CODES, internal_error, is_documented, unavailable_error
from app.domain.jobs import CANCELLED, Job, JobState
from app.domain.leases import ClaimedJob, Lease
from app.domain.outcomes import Outcome
from app.domain.webhooks import delivery_job
from app.handlers.llm import conversation, results
from app.handlers.llm.ask import AskHandler
from app.handlers.llm.classify import ClassifyHandler
from app.handlers.llm.conversation import LlmBudget
from app.handlers.llm.extract import ExtractHandler
from app.handlers.llm.summarize import SummarizeHandler
from app.handlers.ocr import OcrHandler
from app.handlers.selftest import SelftestHandler
from app.handlers.webhook import WebhookHandler
from app.handlers.webhook_slots import EndpointSlots
from app.ports.leases import Handler, ProgressReporter
from app.ports.llm import LlmBusy, LlmContextExceeded, LlmRefused, LlmRejected, LlmTruncated
from app.ports.sender import WebhookResponse
from app.reading.children.process import ChildDied, ChildFailed
from app.reading.null import NullRecognizer
from app.services import execution
from app.telemetry import Metrics
from tests.support.folders import ROOT
from tests.support.rig import SECOND, Rig, memory_rig
from tests.support.scripted_llm import Scripted, says
from tests.unit.bench import Bench, a_hold
from tests.unit.llm_desk import RECEIPT, page_of

SECRET = "s3cret"
BYTES = b"bytes"
WORDS = [SECRET, "Error", "Traceback", "pkey", "No space", "DAIRA_", "/tmp", "memory://", "sqlalchemy", "asyncpg"]  # noqa: S108
"""Words of causes that no tenant may read."""

FAILURES: dict[str, Callable[[], BaseException]] = {
    "bug": lambda: RuntimeError(SECRET),
    "key": lambda: KeyError(SECRET),
    "memory": lambda: MemoryError(SECRET),
    "disk": lambda: OSError(errno.ENOSPC, "No space left on device", f"/tmp/{SECRET}"),  # noqa: S108
    "connection": lambda: ConnectionResetError(SECRET),
    "timeout": lambda: TimeoutError(SECRET),
    "constraint": lambda: IntegrityError("insert", {}, Exception(f'violates "pages_pkey": {SECRET}')),
    "driver": lambda: DBAPIError("select", {}, Exception(SECRET)),
    "raw driver": lambda: asyncpg.UniqueViolationError(SECRET),
    "unavailable": lambda: Unavailable(f"the bucket {SECRET} at memory://: check DAIRA_BLOB_URL"),
    "conflict": lambda: Conflict(SECRET),
    "invalid": lambda: Invalid(SECRET),
    "not found": lambda: NotFound(SECRET),
    "over": lambda: AttemptOver(SECRET),
    "undocumented": lambda: DocumentFault(SECRET, SECRET),
    "died": lambda: ChildDied(SECRET, was_fresh=True),
    "failed": lambda: ChildFailed(SECRET),
    "several": lambda: ExceptionGroup(SECRET, [RuntimeError(SECRET)]),
    "cancelled": lambda: asyncio.CancelledError(SECRET),
    "refused": lambda: LlmRefused(SECRET),
    "cut off": lambda: LlmTruncated(SECRET),
    "too long": lambda: LlmContextExceeded(f"DAIRA_LLM_CONTEXT_TOKENS is {SECRET}"),
    "rejected": lambda: LlmRejected(f"check DAIRA_LLM_API_KEY: {SECRET}"),
    "busy": lambda: LlmBusy(SECRET, after=SECOND),
}

KINDS: dict[str, dict[str, Any]] = {
    "ocr": {},
    "selftest": {"blob": True},
    "summarize": {},
    "extract": {"schema": {"type": "object", "properties": {"total": {"type": "number"}}}},
    "classify": {"labels": ["invoice", "receipt"]},
    "ask": {"question": "What was the total?"},
    "webhook": {},
}

ANSWERS = {
    "summarize": says(summary="A receipt."),
    "extract": says(data={"total": 3.5}, sources=[]),
    "classify": says(labels=["receipt"], reason="a total", quotes=[]),
    "ask": says(found=False, answer=None, quotes=[]),
}


class FaultAt:
    """Counts the calls of all ports, and raises an error instead of one of them."""

    def __init__(self, number: int, error: BaseException) -> None:
        self._left = number
        self._error = error
        self.raised = False

    def step(self) -> None:
        if self._left == 0 and not self.raised:
            self.raised = True
            raise self._error
        self._left -= 1


class FailingPort:
    def __init__(self, inner: object, fault: FaultAt) -> None:
        self._inner = inner
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **named: Any) -> Any:
            self._fault.step()
            return value(*arguments, **named)

        return call


class FailingTx:
    def __init__(self, tx: object, fault: FaultAt) -> None:
        self._tx = tx
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return FailingPort(getattr(self._tx, name), self._fault)


class FailingDatabase:
    def __init__(self, rig: Rig, fault: FaultAt) -> None:
        self._rig = rig
        self._fault = fault

    @asynccontextmanager
    async def begin(self, tenant_id: Any) -> AsyncIterator[Any]:
        self._fault.step()
        async with self._rig.database.begin(tenant_id) as tx:
            yield FailingTx(tx, self._fault)
            self._fault.step()


class Receiver:
    async def send(self, _url: str, **_: object) -> WebhookResponse:
        return WebhookResponse(status=200)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "SETTLE_AGAIN", 0.001)
    monkeypatch.setattr(conversation, "KEEP_AGAIN", 0.001)


async def enqueued(rig: Rig, kind: str, blobs: MemoryBlobs, **payload: object) -> Job:
    tenant = await rig.tenant()
    document = await rig.document(tenant, sha256=sha256(BYTES).hexdigest())

    async def content() -> AsyncIterator[bytes]:
        yield BYTES

    await blobs.put(blob_key(tenant, document.id), content())
    async with rig.database.begin(tenant) as tx:
        await tx.pages.replace(document.id, [page_of(1, RECEIPT)])
        await tx.documents.set_read(document.id, page_count=1)
    if kind == "webhook":
        webhook = await rig.webhook(tenant)
        async with rig.database.begin(tenant) as tx:
            job = await tx.jobs.add(delivery_job(webhook.id, delivery_id=JobId(uuid7()), event="webhook.test", data={}))
        assert job is not None
        return job
    if payload.get("blob") is True:
        payload["blob"] = str(document.id)
    return await rig.enqueue(tenant, kind=kind, document_id=document.id, payload=payload)


def handler_of(kind: str, database: Any, blobs: Any, fault: FaultAt) -> Handler:
    llm: Any = FailingPort(Scripted(rule=lambda _: ANSWERS[kind]), fault)
    asking: dict[str, Any] = {"database": database, "llm": llm, "budget": LlmBudget(calls=20, tokens=200_000)}
    match kind:
        case "ocr":
            recognizer: Any = FailingPort(NullRecognizer(), fault)
            return OcrHandler(database=database, blobs=blobs, recognizer=recognizer, metrics=Metrics())
        case "selftest":
            return SelftestHandler(blobs=blobs)
        case "webhook":
            sender: Any = FailingPort(Receiver(), fault)
            return WebhookHandler(database=database, sender=sender, shares=EndpointSlots(slots=4))
        case _:
            kinds = (SummarizeHandler, ExtractHandler, ClassifyHandler, AskHandler)
            return next(made for each in kinds if (made := each(**asking)).kind == kind)


async def attempted(rig: Rig, job: Job, blobs: MemoryBlobs, fault: FaultAt) -> tuple[Job, list[str]]:
    """The job after one attempt, and what was logged meanwhile."""
    database: Any = FailingDatabase(rig, fault)
    handler = handler_of(job.kind, database, FailingPort(blobs, fault), fault)
    run = replace(Bench(rig=rig).execution(database=database), handlers={job.kind: handler})
    claimed = await rig.claimed(job)
    with capture_logs() as logged:
        await run.run(claimed, a_hold(claimed))
    return await rig.again(job), [f"{line} {line.get('exc_info')}" for line in logged]


def sentences(job: Job) -> set[str]:
    lease = Lease(job.tenant_id, job.id, 1)
    return {
        internal_error(lease).message,
        unavailable_error(lease, Unavailable("")).message,
        CANCELLED.message,
        "the handler cancelled itself",
        "the document's bytes are lost: upload them again",
        *(error.message for error in results.ERRORS.values()),
        results.BUSY.message,
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failure", FAILURES)
async def test_whatever_call_fails_the_tenant_reads_our_sentences(kind: str, failure: str) -> None:
    failed = 0
    for number in count():
        rig, blobs, fault = memory_rig(), MemoryBlobs(), FaultAt(number, FAILURES[failure]())
        try:
            job, logged = await attempted(rig, await enqueued(rig, kind, blobs, **KINDS[kind]), blobs, fault)
        except asyncio.CancelledError:  # while the results were written: it is the worker's own task that ends
            continue
        if not fault.raised:
            assert (job.state, job.error) == (JobState.DONE, None)
            break
        errors = [error for error in (job.error, *(each.error for each in await rig.attempts(job))) if error]
        failed += bool(errors)
        for error in errors:
            assert error.code in CODES
            assert error.message in sentences(job)
            assert not [word for word in WORDS if word in error.message]
        if errors and failure not in {"over", "cancelled", "cut off", "not found"}:
            assert [line for line in logged if SECRET in line], "the operator finds the cause"
    assert failed


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("ocr", {"mode": SECRET}),
        ("ocr", {"pages": [SECRET]}),
        ("ocr", {"pages": f"1-{SECRET}"}),
        ("selftest", {"seconds": SECRET}),
        ("summarize", {"max_words": SECRET}),
        ("extract", {"schema": SECRET}),
        ("extract", {}),
        ("classify", {"labels": {SECRET: 1}}),
        ("ask", {}),
    ],
)
async def test_a_payload_that_is_not_understood_is_not_quoted(rig: Rig, kind: str, payload: dict[str, Any]) -> None:
    blobs = MemoryBlobs()
    job, _ = await attempted(rig, await enqueued(rig, kind, blobs, **payload), blobs, FaultAt(-1, RuntimeError()))
    assert job.error == internal_error(Lease(job.tenant_id, job.id, 1))


async def test_a_job_whose_document_is_deleted_meanwhile_ends_without_an_error_of_ours(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    document = await bench.rig.document(tenant)
    job = await bench.rig.claimed(await bench.rig.enqueue(tenant, document_id=document.id))

    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        await bench.rig.remove(document)
        raise AttemptOver("the lease is lost")

    bench.handler.act = act
    with capture_logs() as logged:
        await bench.execution().run(job, a_hold(job))
    assert [line["event"] for line in logged] == ["lease_lost"]


async def test_an_attempt_without_a_document_is_cancelled(bench: Bench) -> None:
    async def act(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        raise AttemptOver("the document was deleted")

    bench.handler.act = act
    job = await bench.run(await bench.rig.enqueue(await bench.rig.tenant()))
    assert (job.state, job.error) == (JobState.CANCELLED, CANCELLED)


def test_codes_are_documented() -> None:
    written = "".join((ROOT / "docs" / name).read_text() for name in ("how-to/errors.md", "webhooks.md"))
    assert [code for code in sorted(CODES) if f"`{code}`" not in written] == []
    assert is_documented("status_503")
    assert not is_documented("status_5xx")
    assert not is_documented("KeyError")
