"""What the machine of jobs may draw: which job, which token, which ending, how long a wait."""

from dataclasses import dataclass
from datetime import timedelta

from hypothesis import strategies as st

from app.domain.ids import JobId
from app.domain.jobs import CANCELLED, JobError, Progress
from app.domain.outcomes import Done, Ending, Fail, Release, Retry, Snooze
from tests.support.rig import KIND, LEASE, OOPS, SECOND

LATER_KIND = "from-the-future"
EVERY_KIND = frozenset({KIND, LATER_KIND})
BUSY = JobError(code="busy", message="come back later")
MANY = 100


@dataclass(frozen=True, slots=True)
class Pick:
    """A job by its place in the list, the liveliest first; under its tenant, the other, or one that there is not."""

    place: int
    under: str = "own"
    job: JobId | None = None
    """Once it is picked, for steps that change the list."""


@dataclass(frozen=True, slots=True)
class Token:
    """That of the latest attempt, of one so many claims before, or (-1) one that nobody was given."""

    pick: Pick
    age: int = 0


@dataclass(frozen=True, slots=True)
class Act:
    """How somebody ends an attempt."""

    token: Token
    ending: Ending
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Stint:
    """One worker at one job, from the claim to the end."""

    worker: str
    pick: Pick
    before: timedelta
    cancelled: bool
    during: timedelta
    beats: bool
    progress: Progress | None
    ending: Ending
    alone: bool
    """Settled in a transaction of its own, and not in a batch."""


RARELY = st.sampled_from([False] * 5 + [True])
SOMETIMES = st.sampled_from([False, False, True])
CAPS = st.sampled_from([None, None, 1, 2])
TENANTS = st.sampled_from([0, 1])
WORKERS = st.sampled_from(["anna", "bert"])
KINDS = st.sampled_from([EVERY_KIND, frozenset({KIND})])
NEW_JOBS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([KIND, KIND, LATER_KIND]),
        "dedup_key": st.sampled_from([None, "same", "other"]),
        "run_in": st.sampled_from([0 * SECOND, 0 * SECOND, 20 * SECOND]),
        "max_attempts": st.sampled_from([1, 2, 5]),
    }
)

PLACES = st.sampled_from([0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7])
PICKS = st.builds(Pick, PLACES, st.sampled_from(["own"] * 8 + ["other", "nobody"]))
SEVERAL = st.lists(PICKS, min_size=1, max_size=6)
TOKENS = st.builds(Token, PICKS, st.sampled_from([0] * 6 + [1, 1, 2, -1]))
PROGRESS = st.sampled_from([None, Progress(done=1, total=3, unit="pages"), Progress(done=2, total=3, unit="pages")])
PULSES = st.lists(st.tuples(TOKENS, PROGRESS), min_size=1, max_size=5)
ENDINGS: st.SearchStrategy[Ending] = st.sampled_from(
    [
        Release(),
        Retry(OOPS),
        Retry(BUSY, after=20 * SECOND),
        Snooze(2 * SECOND),
        Snooze(20 * SECOND, BUSY),
        Done(),
        Fail(OOPS),
        Fail(CANCELLED),
    ]
)
ACTS = st.builds(Act, TOKENS, ENDINGS, PROGRESS)

WAITS = st.sampled_from([SECOND, 6 * SECOND, 21 * SECOND, 31 * SECOND, LEASE, LEASE + SECOND, timedelta(minutes=20)])
OVER = st.sampled_from([SECOND, SECOND, 0 * SECOND])
"""At the very end of a lease it still holds; on Postgres that moment is over at once."""
NAPS = st.sampled_from([0 * SECOND, SECOND, 21 * SECOND, 31 * SECOND])
STINTS = st.lists(
    st.builds(
        Stint,
        worker=WORKERS,
        pick=st.builds(Pick, PLACES),
        before=NAPS,
        cancelled=RARELY,
        during=NAPS,
        beats=st.booleans(),
        progress=PROGRESS,
        ending=ENDINGS,
        alone=st.booleans(),
    ),
    min_size=1,
    max_size=3,
)

EARLY = st.sampled_from([None, None, frozenset({KIND}), EVERY_KIND])
PASSES = st.sampled_from([[0, 1], [0], [1], [1, 0, 1], [2, 1, 0]])
"""The tenants of a pass; the third is one that there is not."""
LIMITS = st.sampled_from([MANY, 1, 1, 2])
