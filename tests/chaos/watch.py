"""A look at all jobs, again and again while the soak test goes on: what is read may only go forward."""

from collections.abc import Iterable

from app.domain.ids import JobId
from app.domain.jobs import JobState
from tests.chaos.checker import Violation


class Watch:
    def __init__(self) -> None:
        self.looks = 0
        self.violations: list[Violation] = []
        self._seen: dict[JobId, tuple[JobState, int]] = {}

    def look(self, rows: Iterable[tuple[JobId, JobState, int]]) -> None:
        """All rows there are, as one snapshot: id, state, attempts."""
        self.looks += 1
        now = {job_id: (state, attempts) for job_id, state, attempts in rows}
        for job_id, (state, attempts) in self._seen.items():
            if job_id not in now:
                self._found("not_lost", "its row is gone", job_id)
                continue
            later, count = now[job_id]
            if count < attempts:
                self._found("attempts_never_fall", f"{attempts} attempts, then {count}", job_id)
            if state.terminal and (later is not state or count != attempts):
                self._found("nothing_after_the_end", f"{state}, then {later} with {count} attempts", job_id)
        self._seen = now

    def _found(self, rule: str, detail: str, job_id: JobId) -> None:
        self.violations.append(Violation(rule, detail, job_id))
