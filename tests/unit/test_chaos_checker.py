"""The checker of the chaos suite finds every kind of violation, and nothing where nothing is wrong."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from app.domain.ids import JobId, tenant_id
from app.domain.jobs import AttemptOutcome, JobState
from tests.chaos.checker import unexplained, violations
from tests.chaos.evidence import read_executions
from tests.chaos.fault_injector import FaultInjector, schedule
from tests.chaos.forms import ELSEWHERE, FULL, SHORT, Form
from tests.chaos.load import HARSH, Fate, Planned, plan
from tests.chaos.records import Case, Entry, Execution, Harm, JobRow, Records
from tests.chaos.watch import Watch

JOB = JobId(UUID(int=1))
ACME = tenant_id("acme")
LEASE = 5.0
KILLED = Harm(name="killed", pid=1, began_at=0.5, ended_at=0.6)


def entry(attempt: int, outcome: AttemptOutcome, *, at: float, seconds: float = 1) -> Entry:
    return Entry(attempt=attempt, outcome=outcome, started_at=at, finished_at=at + seconds)


def execution(attempt: int, event: str | None, *, at: float, seconds: float = 0.9, pid: int = 1) -> Execution:
    ended_at = None if event is None else at + seconds
    return Execution(job_id=JOB, tenant=ACME, attempt=attempt, pid=pid, started_at=at, event=event, ended_at=ended_at)


def planned(fate: Fate = Fate.DONE, **fields: object) -> Planned:
    payload = {"do": "result"}
    return Planned(**{"job_id": JOB, "tenant": ACME, "fate": fate, "at": 0, "rung": True, "payload": payload} | fields)  # type: ignore[arg-type]


def row(state: JobState = JobState.DONE, **fields: object) -> JobRow:
    return JobRow(**{"job_id": JOB, "tenant": ACME, "state": state} | fields)  # type: ignore[arg-type]


DONE = Case(
    planned=planned(),
    row=row(attempts=2, expiries=1),
    entries=[
        entry(1, AttemptOutcome.EXPIRED, at=0, seconds=6),
        entry(2, AttemptOutcome.DONE, at=7),
    ],
    results=[{"attempt": 2}],
    executions=[execution(1, None, at=0.1), execution(2, "end", at=7.05, pid=2)],
)
"""Its first worker was killed, the second brought the result."""

LOST = Case(
    planned=planned(),
    row=row(JobState.FAILED, attempts=3, expiries=3, error="worker_lost"),
    entries=[entry(number, AttemptOutcome.EXPIRED, at=10 * number, seconds=6) for number in (1, 2, 3)],
    executions=[execution(number, None, at=10 * number + 0.1, pid=number) for number in (1, 2, 3)],
)
KILLERS = [Harm(name="killed", pid=pid, began_at=10 * pid + 1, ended_at=10 * pid + 1.1) for pid in (1, 2, 3)]

EXHAUSTED = Case(
    planned=planned(Fate.EXHAUSTED, payload={"do": "raise"}, max_attempts=2),
    row=row(JobState.FAILED, attempts=2, failures=2, error="internal"),
    entries=[entry(1, AttemptOutcome.RETRY, at=0), entry(2, AttemptOutcome.FAIL, at=3)],
    executions=[execution(1, "raised", at=0.05), execution(2, "raised", at=3.05)],
)

RELEASED = Case(
    planned=planned(),
    row=row(attempts=2, releases=1),
    entries=[entry(1, AttemptOutcome.RELEASE, at=0), entry(2, AttemptOutcome.DONE, at=7)],
    results=[{"attempt": 2}],
    executions=[execution(1, "stopped", at=0.05), execution(2, "end", at=7.05, pid=2)],
)

CANCELLED = Case(
    planned=planned(Fate.CANCELLED, run_in=600, cancel_in=1), row=row(JobState.CANCELLED), cancelled_at_attempt=0
)

WAITING = Case(planned=planned(Fate.WAITING, kind="unheard-of"), row=row(JobState.QUEUED))


def found(case: Case, *harms: Harm) -> set[str]:
    records = Records(cases={JOB: case}, harms=harms or [KILLED], lease=LEASE)
    return {violation.rule for violation in violations(records)}


@pytest.mark.parametrize("case", [DONE, EXHAUSTED, RELEASED, CANCELLED, WAITING])
def test_what_is_as_it_should_be_passes(case: Case) -> None:
    assert found(case) == set()


def altered(case: Case, **fields: object) -> Case:
    """With another row: `state`, counters; the rest stays."""
    assert case.row is not None
    return replace(case, row=replace(case.row, **fields))  # type: ignore[arg-type]


BROKEN: dict[str, tuple[str, Callable[[], Case]]] = {
    "a row that is gone": ("not_lost", lambda: replace(DONE, row=None, entries=[], results=[])),
    "a row of another tenant": ("not_lost", lambda: altered(DONE, tenant="other")),
    "a job that has not ended": (
        "ends_as_planned",
        lambda: replace(altered(DONE, state=JobState.QUEUED), results=[], entries=DONE.entries[:1]),
    ),
    "a job that failed and should not": ("ends_as_planned", lambda: altered(DONE, state=JobState.FAILED)),
    "an unknown kind that was claimed": ("ends_as_planned", lambda: altered(WAITING, attempts=1)),
    "an unknown kind that ended": ("ends_as_planned", lambda: altered(WAITING, state=JobState.FAILED)),
    "a failure too many": ("failures_as_planned", lambda: altered(EXHAUSTED, failures=3)),
    "a failure too few": ("failures_as_planned", lambda: altered(EXHAUSTED, failures=1)),
    "a release that counts as a failure": ("failures_as_planned", lambda: altered(RELEASED, failures=1)),
    "an attempt that is not noted": ("history_is_whole", lambda: replace(DONE, entries=DONE.entries[1:])),
    "an attempt too many": ("history_is_whole", lambda: altered(DONE, attempts=1)),
    "an attempt number refunded": ("history_is_whole", lambda: altered(RELEASED, attempts=1)),
    "an expiry that is not counted": ("counters_agree", lambda: altered(DONE, expiries=0)),
    "a release that is not counted": ("counters_agree", lambda: altered(RELEASED, releases=0)),
    "an attempt after the end": (
        "nothing_after_the_end",
        lambda: replace(DONE, entries=[entry(1, AttemptOutcome.DONE, at=0), entry(2, AttemptOutcome.DONE, at=7)]),
    ),
    "a claim before the end of the one before": (
        "nothing_after_the_end",
        lambda: replace(DONE, entries=[DONE.entries[0], entry(2, AttemptOutcome.DONE, at=5)]),
    ),
    "a state that its history denies": (
        "nothing_after_the_end",
        lambda: altered(DONE, state=JobState.CANCELLED),
    ),
    "done without an attempt that was": (
        "nothing_after_the_end",
        lambda: replace(DONE, entries=[DONE.entries[0], entry(2, AttemptOutcome.RETRY, at=7)]),
    ),
    "no result": ("result_once", lambda: replace(DONE, results=[])),
    "two results": ("result_once", lambda: replace(DONE, results=[{"attempt": 2}, {"attempt": 2}])),
    "a result of a job that is not done": ("result_once", lambda: replace(EXHAUSTED, results=[{"attempt": 2}])),
    "a result of another attempt": ("result_once", lambda: replace(DONE, results=[{"attempt": 1}])),
    "an attempt that was started twice": (
        "started_once",
        lambda: replace(DONE, executions=[*DONE.executions, execution(2, "end", at=9, pid=3)]),
    ),
    "an attempt number that fell": (
        "started_once",
        lambda: replace(RELEASED, executions=[*RELEASED.executions, execution(1, "end", at=9)]),
    ),
    "an attempt that nobody claimed": (
        "started_once",
        lambda: replace(DONE, executions=[*DONE.executions, execution(3, "end", at=9)]),
    ),
    "a run under another tenant's name": (
        "started_once",
        lambda: replace(DONE, executions=[DONE.executions[0], replace(DONE.executions[1], tenant="other")]),
    ),
    "an end that nobody reached": ("ran_as_noted", lambda: replace(DONE, executions=DONE.executions[:1])),
    "an end that was another": (
        "ran_as_noted",
        lambda: replace(DONE, executions=[DONE.executions[0], execution(2, "raised", at=7.05)]),
    ),
    "two at once, and the first still had its lease": (
        "alone",
        lambda: replace(RELEASED, executions=[execution(1, "stopped", at=0, seconds=8), RELEASED.executions[1]]),
    ),
    "a cancelled job that ran": (
        "cancelled_is_final",
        lambda: replace(CANCELLED, executions=[execution(1, "end", at=2)]),
    ),
    "a claim after the answer that it is cancelled": ("cancelled_is_final", lambda: altered(CANCELLED, attempts=1)),
    "a lease that was ended early": (
        "lease_kept",
        lambda: replace(DONE, entries=[entry(1, AttemptOutcome.EXPIRED, at=0, seconds=4.9), DONE.entries[1]]),
    ),
}


@pytest.mark.parametrize(("rule", "broken"), BROKEN.values(), ids=BROKEN)
def test_a_violation_is_found(rule: str, broken: Callable[[], Case]) -> None:
    assert rule in found(broken())


def test_three_lost_workers_may_cost_a_job() -> None:
    assert found(LOST, *KILLERS) == set()


def test_a_job_failed_as_worker_lost_whose_workers_nobody_harmed_is_found() -> None:
    assert found(LOST, *KILLERS[:2]) == {"lost_by_harm"}


def test_a_job_failed_as_worker_lost_too_early_is_found() -> None:
    early = replace(altered(LOST, attempts=2, expiries=2), entries=LOST.entries[:2], executions=LOST.executions[:2])
    assert found(early, *KILLERS) == {"lost_by_harm"}


def test_harm_to_the_database_accounts_for_any_expiry_and_harm_to_a_worker_for_its_own() -> None:
    def count(harm: Harm) -> int:
        return len(unexplained(Records(cases={JOB: DONE}, harms=[harm], lease=LEASE)))

    assert count(Harm(name="crash", pid=None, began_at=2, ended_at=3)) == 0
    assert count(KILLED) == 0
    assert count(replace(KILLED, pid=2)) == 1
    assert count(replace(KILLED, began_at=7, ended_at=8)) == 1


def test_a_late_start_of_a_lost_attempt_is_no_violation() -> None:
    """A worker that stood still between its claim and the start."""
    late = [DONE.executions[1], execution(1, "stopped", at=7.5)]
    assert found(replace(DONE, executions=late)) == set()


def test_what_nobody_enqueued_is_found() -> None:
    records = Records(cases={}, harms=[], lease=LEASE, strangers=["a row of job 7"])
    assert [violation.rule for violation in violations(records)] == ["nobody_enqueued_it"]


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ("attempts_never_fall", (JobState.CLAIMED, 2), (JobState.QUEUED, 1)),
        ("nothing_after_the_end", (JobState.DONE, 2), (JobState.QUEUED, 2)),
        ("nothing_after_the_end", (JobState.FAILED, 2), (JobState.CANCELLED, 2)),
        ("nothing_after_the_end", (JobState.CANCELLED, 2), (JobState.CANCELLED, 3)),
        ("not_lost", (JobState.QUEUED, 0), None),
    ],
)
def test_what_goes_backward_between_two_looks_is_found(
    rule: str, before: tuple[JobState, int], after: tuple[JobState, int] | None
) -> None:
    watch = Watch()
    watch.look([(JOB, *before)])
    assert watch.violations == []
    watch.look([(JOB, *after)] if after else [])
    assert [violation.rule for violation in watch.violations] == [rule]


def test_what_goes_forward_between_two_looks_passes() -> None:
    watch = Watch()
    for state, attempts in [(JobState.QUEUED, 0), (JobState.CLAIMED, 1), (JobState.QUEUED, 1), (JobState.DONE, 2)]:
        watch.look([(JOB, state, attempts)])
    assert watch.violations == []


def test_the_log_of_executions_is_read_with_what_a_killed_process_left_open(tmp_path: Path) -> None:
    def line(attempt: int, event: str, at: float) -> str:
        return json.dumps({"job": str(JOB), "tenant": "acme", "attempt": attempt, "pid": 7, "event": event, "at": at})

    (tmp_path / "7.jsonl").write_text("\n".join([line(2, "start", 5), line(2, "end", 6), line(3, "start", 7)]))
    (tmp_path / "8.jsonl").write_text(line(1, "start", 1))
    runs = read_executions(tmp_path)[JOB]
    assert [(run.attempt, run.event, run.ended_at) for run in runs] == [(1, None, None), (2, "end", 6), (3, None, None)]


def test_the_same_seed_plans_the_same_jobs_and_the_same_harm() -> None:
    def jobs(seed: int) -> list[Planned]:
        return plan(seed=seed, jobs=500, tenants=10, seconds=60, mix=HARSH, blocking=2, deadly=1, lease=5)

    assert jobs(1) == jobs(1)
    assert jobs(1) != jobs(2)
    assert {job.fate for job in jobs(1)} == set(Fate)
    assert schedule({"kill": 9}, seed=1, seconds=60) == schedule({"kill": 9}, seed=1, seconds=60)


@pytest.mark.parametrize("form", [SHORT, FULL, ELSEWHERE])
def test_every_harm_of_a_form_is_one_that_the_monkey_knows(form: Form) -> None:
    assert all(hasattr(FaultInjector, name) for name in form.harms)
