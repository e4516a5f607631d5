"""What becomes of a job: every outcome, the last attempt, and the wait before the next one."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from app.domain.ids import JobId, TenantId, uuid7
from app.domain.jobs import CANCELLED, AttemptOutcome, JobError, JobState
from app.domain.leases import ClaimedJob, Lease, Settlement
from app.domain.outcomes import (
    BACKOFF,
    BACKOFF_CAP,
    BACKOFF_FLOOR,
    Done,
    Ending,
    Fail,
    Release,
    Retry,
    Snooze,
    backoff,
    settlement,
)

OOPS = JobError(code="oops", message="it did not work")

FAILURES = st.integers(min_value=0, max_value=10_000)
JITTER = st.floats(min_value=0, max_value=1)


def claimed(*, failures: int = 0, max_attempts: int = 5) -> ClaimedJob:
    return ClaimedJob(
        lease=Lease(tenant_id=TenantId("acme"), job_id=JobId(uuid7()), attempt=failures + 1),
        kind="ocr",
        document_id=None,
        payload={},
        failures=failures,
        max_attempts=max_attempts,
        traceparent=None,
        waited=timedelta(),
    )


def settled(ending: Ending, *, failures: int = 0, max_attempts: int = 5, jitter: float = 0.5) -> Settlement:
    job = claimed(failures=failures, max_attempts=max_attempts)
    end = settlement(job, ending, jitter=jitter)
    assert end.lease == job.lease
    return end


def test_done_ends_the_job_without_an_error() -> None:
    end = settled(Done())
    assert (end.state, end.outcome, end.error) == (JobState.DONE, AttemptOutcome.DONE, None)
    assert (end.failures, end.releases, end.delay) == (0, 0, timedelta())


def test_fail_ends_the_job_at_its_first_attempt() -> None:
    end = settled(Fail(OOPS))
    assert (end.state, end.outcome, end.error) == (JobState.FAILED, AttemptOutcome.FAIL, OOPS)
    assert (end.failures, end.releases) == (1, 0)


def test_a_cancelled_handler_cancels_the_job_and_counts_nothing() -> None:
    end = settled(Fail(CANCELLED))
    assert (end.state, end.outcome, end.error) == (JobState.CANCELLED, AttemptOutcome.CANCELLED, CANCELLED)
    assert (end.failures, end.releases) == (0, 0)


def test_retry_queues_the_job_and_counts_a_failure() -> None:
    end = settled(Retry(OOPS))
    assert (end.state, end.outcome, end.error) == (JobState.QUEUED, AttemptOutcome.RETRY, OOPS)
    assert (end.failures, end.releases) == (1, 0)


def test_snooze_queues_the_job_and_counts_nothing() -> None:
    end = settled(Snooze(timedelta(minutes=3), OOPS))
    assert (end.state, end.outcome, end.error) == (JobState.QUEUED, AttemptOutcome.SNOOZE, OOPS)
    assert (end.failures, end.releases, end.delay) == (0, 0, timedelta(minutes=3))


def test_a_snooze_never_ends_an_exhausted_job() -> None:
    assert settled(Snooze(timedelta(minutes=3)), failures=99).state is JobState.QUEUED


def test_release_queues_the_job_at_once_and_counts_a_release_alone() -> None:
    end = settled(Release(), failures=99)
    assert (end.state, end.outcome, end.error) == (JobState.QUEUED, AttemptOutcome.RELEASE, None)
    assert (end.failures, end.releases, end.delay) == (0, 1, timedelta())


def test_the_last_but_one_failure_is_retried_and_the_last_one_fails() -> None:
    assert settled(Retry(OOPS), failures=3, max_attempts=5).state is JobState.QUEUED
    last = settled(Retry(OOPS), failures=4, max_attempts=5)
    assert (last.state, last.outcome, last.error, last.failures) == (JobState.FAILED, AttemptOutcome.FAIL, OOPS, 1)


@given(failures=st.integers(0, 50), max_attempts=st.integers(1, 50))
def test_a_job_fails_exactly_when_its_failures_reach_max_attempts(failures: int, max_attempts: int) -> None:
    end = settled(Retry(OOPS), failures=failures, max_attempts=max_attempts)
    assert (end.state is JobState.FAILED) == (failures + 1 >= max_attempts)


def test_what_the_other_side_asked_for_wins_over_the_backoff() -> None:
    assert settled(Retry(OOPS, after=timedelta(hours=2))).delay == timedelta(hours=2)
    assert settled(Retry(OOPS, after=timedelta(seconds=7)), failures=3).delay == timedelta(seconds=7)


@given(after=st.timedeltas(max_value=BACKOFF_FLOOR))
def test_no_wait_is_shorter_than_the_floor_whoever_asked_for_it(after: timedelta) -> None:
    assert settled(Retry(OOPS, after=after)).delay == BACKOFF_FLOOR
    assert settled(Snooze(after)).delay == BACKOFF_FLOOR


@given(failures=FAILURES, jitter=JITTER)
def test_a_backoff_lies_between_the_floor_and_the_cap(failures: int, jitter: float) -> None:
    assert timedelta() < BACKOFF_FLOOR <= backoff(failures, jitter=jitter) <= BACKOFF_CAP


@given(failures=FAILURES, jitter=JITTER)
def test_a_backoff_never_shrinks_with_more_failures(failures: int, jitter: float) -> None:
    assert backoff(failures, jitter=jitter) <= backoff(failures + 1, jitter=jitter)


@given(failures=FAILURES, lower=JITTER, upper=JITTER)
def test_more_jitter_never_means_a_shorter_backoff(failures: int, lower: float, upper: float) -> None:
    lower, upper = sorted((lower, upper))
    assert backoff(failures, jitter=lower) <= backoff(failures, jitter=upper)


@given(failures=FAILURES)
def test_jitter_spreads_a_backoff_over_the_whole_of_its_length(failures: int) -> None:
    assert backoff(failures, jitter=0) == BACKOFF_FLOOR
    assert backoff(failures, jitter=0.5) * 2 == backoff(failures, jitter=1) + BACKOFF_FLOOR


def test_the_backoff_doubles_from_its_base_until_it_reaches_the_cap() -> None:
    full = [backoff(failures, jitter=1) for failures in range(20)]
    assert full[:4] == [BACKOFF, BACKOFF * 2, BACKOFF * 4, BACKOFF * 8]
    assert full[-1] == BACKOFF_CAP
    assert backoff(10_000, jitter=1) == BACKOFF_CAP


@given(failures=st.integers(0, 3), jitter=JITTER)
def test_a_retry_waits_for_the_backoff_of_the_failures_before_it(failures: int, jitter: float) -> None:
    assert settled(Retry(OOPS), failures=failures, jitter=jitter).delay == backoff(failures, jitter=jitter)
