"""The `selftest` job, who may ask for one, and what `daira selftest` prints."""

import asyncio
import hashlib
import io
import json
from dataclasses import dataclass, field

import pytest
from pydantic import ValidationError
from rich.console import Console

from app.adapters.memory.blobs import MemoryBlobs
from app.cli import selftest as cli
from app.domain.documents import blob_key
from app.domain.doorbells import LANE_OF_KIND, Lane
from app.domain.errors import Invalid
from app.domain.ids import DocumentId, TenantId, uuid7
from app.domain.jobs import Job, JobState, Progress
from app.domain.outcomes import Done
from app.domain.selftest import KIND, is_ours, new_tenant
from app.handlers.selftest import SelftestHandler
from app.selftest.run import CHECKS, CLEAN_UP, DELIVERY, SET_UP, CheckFinding, CheckVerdict
from app.settings import Settings
from tests.conformance.blobs_suite import chunks
from tests.support.rig import Rig, done
from tests.unit.served import Served, in_memory

ACME, BOLT = TenantId("acme"), TenantId("bolt")


@dataclass(frozen=True)
class Notes:
    """What a handler has reported."""

    taken: list[Progress] = field(default_factory=list)
    must_yield: bool = False

    def report(self, progress: Progress) -> None:
        self.taken.append(progress)

    def begin_recognition(self) -> bool:
        return True


async def ran(rig: Rig, handler: SelftestHandler, notes: Notes, **payload: object) -> Job:
    """The job after one attempt, settled as a worker does it."""
    job = await rig.enqueue(await rig.tenant(), kind=KIND, payload=payload)
    claimed = await rig.claimed(job)
    outcome = await handler.run(claimed, notes)
    assert isinstance(outcome, Done)
    assert outcome.apply is not None
    async with rig.database.begin(job.tenant_id) as tx:
        assert await tx.jobs.settle(done(claimed.lease))
        await outcome.apply(tx)
    return await rig.again(job)


async def test_it_says_in_its_result_which_attempt_did_it_and_what_was_read(rig: Rig) -> None:
    blobs, blob, notes = MemoryBlobs(), DocumentId(uuid7()), Notes()
    await blobs.put(blob_key(ACME, blob), chunks(b"Dear ", b"Sir"))
    job = await ran(rig, SelftestHandler(blobs=blobs), notes, blob=str(blob))
    assert job.state is JobState.DONE
    assert job.result == {"attempt": 1, "sha256": hashlib.sha256(b"Dear Sir").hexdigest()}
    assert notes.taken == []


async def test_a_blob_that_is_nowhere_or_another_tenants_is_none(rig: Rig) -> None:
    blobs, blob = MemoryBlobs(), DocumentId(uuid7())
    await blobs.put(blob_key(BOLT, blob), chunks(b"Not theirs"))
    job = await ran(rig, SelftestHandler(blobs=blobs), Notes(), blob=str(blob))
    assert job.result == {"attempt": 1, "sha256": None}


async def test_it_takes_as_long_as_it_is_told_and_tells_how_far_it_is(rig: Rig) -> None:
    notes = Notes()
    began = asyncio.get_running_loop().time()
    await ran(rig, SelftestHandler(blobs=MemoryBlobs()), notes, seconds=1.1)
    assert asyncio.get_running_loop().time() - began >= 1.1
    assert notes.taken == [Progress(done=0, total=2, unit="second"), Progress(done=1, total=2, unit="second")]


@pytest.mark.parametrize("payload", [{"seconds": 31}, {"seconds": -1}, {"seconds": "long"}, {"blob": "../../etc"}])
async def test_a_payload_beyond_its_bounds_is_refused(rig: Rig, payload: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        await ran(rig, SelftestHandler(blobs=MemoryBlobs()), Notes(), **payload)


async def test_every_worker_with_the_lane_ocr_knows_it(web: Served) -> None:
    assert LANE_OF_KIND[KIND] is Lane.OCR
    assert web.runtime.worker is not None
    assert all(KIND in consumer._execution.handlers for consumer in web.runtime.worker.consumers)


async def test_no_client_can_ask_for_one(web: Served) -> None:
    document = await web.uploaded()
    refused = await web.client.post(f"/v1/documents/{document['id']}/jobs", json={"kind": KIND})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    refused = await web.upload(jobs=json.dumps([{"kind": "ocr"}, {"kind": KIND}]))
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    assert [job["kind"] for job in (await web.client.get("/v1/jobs")).json()["data"]] == ["ocr"]


def test_no_two_runs_have_the_same_tenants_and_no_other_name_is_taken_for_one() -> None:
    names = {new_tenant() for _ in range(100)}
    assert len(names) == 100
    assert all(map(is_ours, names))
    assert not any(
        is_ours(TenantId(name)) for name in ("selftest", "selftest-team", "selftest-0123456789abcdef0", "acme")
    )


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, "database (DAIRA_DATABASE_URL)"),
        ({"database_url": "postgresql://x"}, "queue (DAIRA_QUEUE_URL)"),
        ({"database_url": "postgresql://x", "queue_url": ""}, "blob store (DAIRA_BLOB_URL)"),
    ],
)
def test_what_one_process_has_for_itself_is_refused(settings: dict[str, str], named: str) -> None:
    with pytest.raises(Invalid) as refused:
        cli.refuse_unshared(in_memory(**settings))
    assert str(refused.value) == f"selftest needs a {named} that the workers share: memory:// is one process's own"
    cli.refuse_unshared(Settings(_env_file=None))


FINDINGS = [
    CheckFinding(check=SET_UP, verdict=CheckVerdict.PASSED, seen="selftest-1 and selftest-2", seconds=0.04),
    CheckFinding(check=DELIVERY, verdict=CheckVerdict.FAILED, seen="no worker took [the] job", seconds=30.04),
    CheckFinding(check=CHECKS[2], verdict=CheckVerdict.SKIPPED, seen="needs a worker, see delivery"),
]


def shown(*, lines: bool, terminal: bool = False) -> str:
    out = io.StringIO()
    with (
        show := cli.FindingPrinter(
            Console(file=out, width=200, force_terminal=terminal, color_system=None), lines=lines
        )
    ):
        for finding in FINDINGS:
            show.started(finding.check)
            show.found(finding)
    return out.getvalue()


def test_each_finding_is_a_line_in_a_pipe() -> None:
    assert shown(lines=True).splitlines() == [
        "✓ set-up          selftest-1 and selftest-2 (0.0 s)",
        "✗ delivery        no worker took [the] job (30.0 s)",
        "– shared blobs    needs a worker, see delivery",
    ]
    assert shown(lines=False) == ""


def test_on_a_terminal_it_also_shows_what_is_being_looked_at() -> None:
    printed = shown(lines=True, terminal=True)
    assert "✗ delivery        no worker took [the] job (30.0 s)" in printed


def test_the_sum_is_a_sentence_or_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    cli.sum_up(FINDINGS, seconds=30.14, as_json=False)
    cli.sum_up(FINDINGS[:1], seconds=0.04, as_json=False)
    cli.sum_up(FINDINGS, seconds=30.14, as_json=True)
    failed, passed, body = capsys.readouterr().out.splitlines()
    assert failed == "not as it should be: delivery; 1 not looked at"
    assert passed == "all is as it should be (0.0 s)"
    printed = json.loads(body)
    assert (printed["ok"], printed["seconds"]) == (False, 30.1)
    assert [check["verdict"] for check in printed["checks"]] == ["passed", "failed", "skipped"]
    assert printed["checks"][1] == {
        "name": "delivery",
        "checks": "A job that is committed and rung is done by a worker",
        "verdict": "failed",
        "seen": "no worker took [the] job",
        "seconds": 30.04,
    }


def test_every_check_has_a_name_of_its_own_and_a_sentence() -> None:
    checks = [SET_UP, DELIVERY, *CHECKS, CLEAN_UP]
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.sentence and "\n" not in check.sentence for check in checks)
    assert all(len(check.name) < 16 for check in checks)
