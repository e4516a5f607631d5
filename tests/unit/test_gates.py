"""Gates: a dependency out of order costs no job an attempt, stops the lane, and is found again by its probe."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
import structlog

from app.domain.doorbells import Lane
from app.domain.errors import Unavailable
from app.domain.jobs import JobError, JobState
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Fail, Outcome, Retry, Suspect
from app.ports.leases import ProgressReporter
from app.services import gates
from app.services.gates import Gate, Gates
from app.worker import consumer
from tests.support.rig import Rig
from tests.unit.bench import Bench
from tests.unit.test_consumer import Running, are
from tests.unit.waiting import settled, until

AWAY = Suspect(Retry(JobError(code="unavailable", message="away")))


@dataclass
class Dependency:
    """A dependency that jobs and probes use."""

    fault: str | None = None
    probes: int = 0

    async def probe(self) -> None:
        self.probes += 1
        await asyncio.sleep(0)
        if self.fault:
            raise RuntimeError(self.fault)

    async def work(self, _job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        if self.fault:
            raise Unavailable("away")
        return Done()


@dataclass(kw_only=True)
class Gated:
    bench: Bench
    dependency: Dependency = field(default_factory=Dependency)
    stops: bool = True

    def __post_init__(self) -> None:
        self.bench.handler.act = self.dependency.work
        self.gate = Gate("llm", self.dependency.probe, metrics=self.bench.metrics, stops=self.stops)
        self.gates = Gates(of_lane={Lane.OCR: [self.gate]})
        self.execution = replace(self.bench.execution(), gates=self.gates)

    @property
    def closed(self) -> float:
        return self.bench.count("daira_gate_closed", gate="llm")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(gates, "LONGEST_PAUSE", 0.02)
    monkeypatch.setattr(consumer, "LOOK_AGAIN", 0.005)


@pytest.fixture
async def gated(rig: Rig) -> AsyncIterator[Gated]:
    gated = Gated(bench=Bench(rig=rig))
    yield gated
    await gated.gates.end()


async def test_a_fault_of_the_installation_costs_no_failure_and_shows(gated: Gated) -> None:
    gated.dependency.fault = "the key is refused: check DAIRA_LLM_API_KEY"
    job = await gated.bench.rig.enqueue(await gated.bench.rig.tenant())
    after = await gated.bench.run(job, execution=gated.execution)
    assert (after.state, after.failures, after.attempts) == (JobState.QUEUED, 0, 1)
    assert after.error is not None
    assert "DAIRA" not in after.error.message
    assert gated.gates.faults == {"llm": gated.dependency.fault}
    assert gated.closed == 1
    gated.dependency.fault = None
    await until(lambda: not gated.gates.faults)
    assert gated.closed == 0


async def test_a_document_that_fails_while_all_is_in_order_pays_for_it(gated: Gated) -> None:
    async def fail(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        raise OSError(28, "No space left on device")

    gated.bench.handler.act = fail
    job = await gated.bench.rig.enqueue(await gated.bench.rig.tenant(), max_attempts=2)
    job = await gated.bench.run(job, execution=gated.execution)
    assert (job.state, job.failures) == (JobState.QUEUED, 1)
    await gated.bench.rig.advance(timedelta(minutes=1))
    assert (await gated.bench.run(job, execution=gated.execution)).state is JobState.FAILED
    assert gated.dependency.probes == 2
    assert not gated.gates.faults


@pytest.mark.parametrize(
    ("fault", "state", "failures"), [("out of order", JobState.QUEUED, 0), (None, JobState.FAILED, 1)]
)
async def test_a_suspect_failure_counts_if_the_probe_succeeds(
    gated: Gated, fault: str | None, state: JobState, failures: int
) -> None:
    async def suspect(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        return Suspect(Fail(JobError(code="llm_not_configured", message="rejected")))

    gated.bench.handler.act, gated.dependency.fault = suspect, fault
    job = await gated.bench.rig.enqueue(await gated.bench.rig.tenant())
    after = await gated.bench.run(job, execution=gated.execution)
    assert (after.state, after.failures) == (state, failures)


async def test_what_may_have_broken_the_dependency_pays_and_spares_the_others(gated: Gated) -> None:
    async def break_it(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        gated.dependency.fault = "gone"
        return Suspect(Retry(JobError(code="unavailable", message="it fell silent")), excusable=False)

    gated.bench.handler.act = break_it
    job = await gated.bench.rig.enqueue(await gated.bench.rig.tenant())
    assert (await gated.bench.run(job, execution=gated.execution)).failures == 1
    assert gated.gates.is_closed(Lane.OCR)


async def test_many_jobs_that_fail_at_once_share_one_probe(gated: Gated) -> None:
    assert await asyncio.gather(*(gated.gate.blocks() for _ in range(20))) == [False] * 20
    assert gated.dependency.probes == 1


async def test_a_lane_whose_gate_is_closed_claims_nothing_and_goes_on_when_it_opens(gated: Gated) -> None:
    bench, gated.dependency.fault = gated.bench, "the key is refused"
    jobs = await bench.enqueue(await bench.rig.tenant(), count=200)
    with structlog.testing.capture_logs() as lines:
        async with Running(bench.consumer(slots=4, execution=gated.execution)):
            await until(lambda: gated.gates.is_closed(Lane.OCR))
            await until(lambda: gated.dependency.probes > 20)
            assert bench.count("daira_claims_total", outcome="claimed") <= 8
            assert await are(bench, jobs, JobState.QUEUED)
            gated.dependency.fault = None
            await until(lambda: not gated.gates.faults)
            await bench.rig.advance(3 * gates.WAIT)
            await bench.sweeping.sweep()
            await until(lambda: are(bench, jobs, JobState.DONE))
    assert {(await bench.rig.again(job)).failures for job in jobs} == {0}
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["gate_closed"]


async def test_a_consumer_that_waits_at_a_gate_can_be_stopped(gated: Gated) -> None:
    gated.gate.shut("out of order")
    gated.dependency.fault = "out of order"
    async with Running(gated.bench.consumer(execution=gated.execution)):
        await settled()


async def test_a_gate_that_does_not_stop_its_lane_lets_other_jobs_pass(rig: Rig) -> None:
    gated = Gated(bench=Bench(rig=rig), stops=False)
    gated.dependency.fault = "the language deu is missing"
    job = await rig.enqueue(await rig.tenant())
    after = await gated.bench.run(job, execution=gated.execution)
    assert (after.state, after.failures) == (JobState.QUEUED, 0)
    assert after.started_at is not None
    assert after.run_after - after.started_at >= gates.LONG_WAIT
    assert gated.closed == 1
    assert not gated.gates.is_closed(Lane.OCR)
    await gated.gates.end()


async def test_a_probe_that_never_ends_counts_as_a_fault(monkeypatch: pytest.MonkeyPatch, gated: Gated) -> None:
    monkeypatch.setattr(gates, "PATIENCE", 0.01)
    gate = Gate("slow", asyncio.Event().wait, metrics=gated.bench.metrics)
    assert await gate.blocks()
    assert gate.reason == "no answer within 0.01 s"
    await gate.end()
