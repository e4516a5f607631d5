"""The proof: none lost, effects exactly once, nothing after a terminal state, attempts never fall.

Each rule takes all that is known of one job and yields what contradicts it, in a sentence.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from app.domain.ids import JobId
from app.domain.jobs import MAX_EXPIRIES, WORKER_LOST, AttemptOutcome, JobState
from tests.chaos.load import Fate
from tests.chaos.records import Case, Entry, Execution, Harm, Records

TERMINAL_OUTCOME = {
    AttemptOutcome.DONE: JobState.DONE,
    AttemptOutcome.FAIL: JobState.FAILED,
    AttemptOutcome.CANCELLED: JobState.CANCELLED,
}

ANNOUNCED = {
    AttemptOutcome.DONE: {"end"},
    AttemptOutcome.SNOOZE: {"end"},
    AttemptOutcome.FAIL: {"end", "raised"},
    AttemptOutcome.RETRY: {"end", "raised"},
    AttemptOutcome.RELEASE: {"stopped"},
}
"""How an execution must have ended for its attempt to be noted so."""

SLACK = 3.0
"""Seconds for which a harm that is over may still cost a lease: connections are made anew, beats are a second apart."""


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    rule: str
    detail: str
    job_id: JobId | None = None


def violations(records: Records) -> list[Violation]:
    found = [
        Violation(rule.__name__.strip("_"), detail, job_id)
        for job_id, case in records.cases.items()
        for rule in RULES
        for detail in rule(case)
    ]
    found += [Violation("nobody_enqueued_it", stranger) for stranger in records.strangers]
    for job_id, case in records.cases.items():
        found += [Violation("lease_kept", detail, job_id) for detail in _lease_kept(case, lease=records.lease)]
        found += [Violation("lost_by_harm", detail, job_id) for detail in _lost_by_harm(case, harms=records.harms)]
    return found


def unexplained(records: Records) -> list[tuple[JobId, Entry]]:
    """Expiries that no harm accounts for: a machine that was too busy for the beats, or a fault of the heart."""
    return [
        (job_id, entry)
        for job_id, case in records.cases.items()
        for entry in _expired(case)
        if not _explained(case, entry, harms=records.harms)
    ]


def is_worker_lost(case: Case) -> bool:
    return case.row is not None and case.row.state is JobState.FAILED and case.row.error == WORKER_LOST.code


def _not_lost(case: Case) -> Iterator[str]:
    if case.row is None:
        yield "its row is gone"
    elif case.row.tenant != case.planned.tenant:
        yield f"enqueued by {case.planned.tenant}, it is {case.row.tenant}'s"


def _ends_as_planned(case: Case) -> Iterator[str]:
    if case.row is None:
        return
    row, fate = case.row, case.planned.fate
    if is_worker_lost(case) and fate is not Fate.WAITING:
        return  # `lost_by_harm` tells whether that is right
    allowed: set[JobState] = {
        Fate.DONE: {JobState.DONE},
        Fate.EXHAUSTED: {JobState.FAILED},
        Fate.REFUSED: {JobState.FAILED},
        Fate.CANCELLED: {JobState.CANCELLED},
        Fate.CONTESTED: {JobState.CANCELLED, JobState.DONE},
        Fate.WAITING: {JobState.QUEUED},
        Fate.DEADLY: set(),  # as worker_lost, see above
    }[fate]
    if row.state not in allowed:
        yield f"{row.state} ({row.error}), planned as {fate}"
    if fate is Fate.WAITING and row.attempts:
        yield f"claimed {row.attempts} times by workers that don't know its kind"


def _failures_as_planned(case: Case) -> Iterator[str]:
    if case.row is None or is_worker_lost(case):
        return
    payload = case.planned.payload
    expected = {Fate.EXHAUSTED: case.planned.max_attempts, Fate.REFUSED: 1}.get(case.planned.fate, 0)
    # Attempts that were lost count among the times too, so fewer of them may have failed.
    most = int(str(payload["times"])) if "times" in payload and payload["do"] != "snooze" else expected
    if not expected <= case.row.failures <= most:
        yield f"{case.row.failures} failures, planned {expected} to {most}"


def _history_is_whole(case: Case) -> Iterator[str]:
    if case.row is None:
        return
    running = case.row.state is JobState.CLAIMED
    noted = [entry.attempt for entry in case.entries]
    expected = list(range(1, case.row.attempts + 1 - running))
    if noted != expected:
        yield f"{case.row.attempts} attempts, of which {noted} are noted"


def _counters_agree(case: Case) -> Iterator[str]:
    if case.row is None:
        return
    noted = Counter(entry.outcome for entry in case.entries)
    # An attempt that failed or was released under a request to cancel is noted as cancelled.
    blurred = noted[AttemptOutcome.CANCELLED]
    failures = noted[AttemptOutcome.RETRY] + noted[AttemptOutcome.FAIL]
    for name, counter, count, spare in [
        ("failures", case.row.failures, failures, blurred),
        ("expiries", case.row.expiries, noted[AttemptOutcome.EXPIRED], 0),
        ("releases", case.row.releases, noted[AttemptOutcome.RELEASE], blurred),
    ]:
        if not count <= counter <= count + spare:
            yield f"{name} is {counter}, the history has {count}"


def _nothing_after_the_end(case: Case) -> Iterator[str]:
    for entry, later in pairwise(case.entries):
        if entry.outcome in TERMINAL_OUTCOME:
            yield f"attempt {entry.attempt} ended it as {entry.outcome}, and {later.attempt} follows"
        if later.started_at < entry.finished_at:
            yield f"attempt {later.attempt} was claimed before {entry.attempt} had ended"
    if case.row is None or not case.entries:
        return
    last = case.entries[-1].outcome
    if last in TERMINAL_OUTCOME and case.row.state is not TERMINAL_OUTCOME[last]:
        yield f"its last attempt ended as {last}, but it is {case.row.state}"
    if case.row.state is JobState.DONE and last is not AttemptOutcome.DONE:
        yield f"done, though its last attempt ended as {last}"


def _result_once(case: Case) -> Iterator[str]:
    if case.row is None:
        return
    promised = case.planned.payload.get("do") not in {"nothing", "progress"}
    expected = int(promised and case.row.state is JobState.DONE)
    if len(case.results) != expected:
        yield f"{case.row.state} with {len(case.results)} results"
    done = [entry.attempt for entry in case.entries if entry.outcome is AttemptOutcome.DONE]
    for result in case.results:
        by = result.get("attempt") if isinstance(result, dict) else None
        if [by] != done:
            yield f"its result is of attempt {by}, done was {done}"


def _started_once(case: Case) -> Iterator[str]:
    for attempt, times in Counter(execution.attempt for execution in case.executions).items():
        if times > 1:
            yield f"attempt {attempt} was started {times} times"
    lost = {entry.attempt for entry in _expired(case)}
    for before, after in pairwise(case.executions):
        # A worker that stood still between its claim and the start begins late, to be stopped at once.
        if after.attempt < before.attempt and after.attempt not in lost:
            yield f"attempt {after.attempt} was started after {before.attempt}"
    most = case.row.attempts if case.row else 0
    for execution in case.executions:
        if execution.attempt > most:
            yield f"attempt {execution.attempt} ran, the row counts {most}"
        if execution.tenant != case.planned.tenant:
            yield f"attempt {execution.attempt} ran for {execution.tenant}"


def _ran_as_noted(case: Case) -> Iterator[str]:
    by_attempt: dict[int, Execution] = {execution.attempt: execution for execution in case.executions}
    for entry in case.entries:
        execution = by_attempt.get(entry.attempt)
        announced = ANNOUNCED.get(entry.outcome)
        if announced is None or (execution is None and entry.outcome is AttemptOutcome.RELEASE):
            continue  # a lost or released attempt may not have begun
        if execution is None:
            yield f"attempt {entry.attempt} is noted as {entry.outcome}, and never ran"
        elif execution.event not in announced:
            yield f"attempt {entry.attempt} is noted as {entry.outcome}, and ended as {execution.event}"


def _alone(case: Case) -> Iterator[str]:
    lost = {entry.attempt for entry in _expired(case)}
    for earlier, later in combinations(sorted(case.executions, key=lambda execution: execution.attempt), 2):
        if earlier.attempt in lost or earlier.attempt == later.attempt:
            continue
        if earlier.ended_at is None or earlier.ended_at > later.started_at:
            yield f"attempt {later.attempt} ran beside {earlier.attempt}, which still had its lease"


def _cancelled_is_final(case: Case) -> Iterator[str]:
    if case.planned.run_in and case.planned.cancel_in is not None and case.executions:
        yield "cancelled before it was due, and ran"
    ended_at = case.cancelled_at_attempt
    if ended_at is not None and case.row is not None and case.row.attempts != ended_at:
        yield f"answered as cancelled after {ended_at} attempts, it has {case.row.attempts}"


RULES: tuple[Callable[[Case], Iterator[str]], ...] = (
    _not_lost,
    _ends_as_planned,
    _failures_as_planned,
    _history_is_whole,
    _counters_agree,
    _nothing_after_the_end,
    _result_once,
    _started_once,
    _ran_as_noted,
    _alone,
    _cancelled_is_final,
)


def _lease_kept(case: Case, *, lease: float) -> Iterator[str]:
    for entry in _expired(case):
        if (held := entry.finished_at - entry.started_at) < lease:
            yield f"attempt {entry.attempt} was ended as lost after {held:.3f} s"


def _lost_by_harm(case: Case, *, harms: Sequence[Harm]) -> Iterator[str]:
    """Failed as worker_lost: each of the three executions really was killed, stalled or cut off."""
    if not is_worker_lost(case):
        return
    expired = _expired(case)
    if len(expired) != MAX_EXPIRIES:
        yield f"failed as {WORKER_LOST.code} after {len(expired)} expiries"
    for entry in expired:
        if not _explained(case, entry, harms=harms):
            yield f"failed as {WORKER_LOST.code}, but nothing was done to attempt {entry.attempt}"


def _explained(case: Case, entry: Entry, *, harms: Sequence[Harm]) -> bool:
    ran_on = {execution.pid for execution in case.executions if execution.attempt == entry.attempt}
    return any(
        harm.began_at <= entry.finished_at
        and entry.started_at <= harm.ended_at + SLACK
        # A worker that was killed between the claim and the start has left no trace of which it was.
        and (harm.pid is None or not ran_on or harm.pid in ran_on)
        for harm in harms
    )


def _expired(case: Case) -> list[Entry]:
    return [entry for entry in case.entries if entry.outcome is AttemptOutcome.EXPIRED]
