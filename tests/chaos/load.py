"""The jobs of one soak test: what each one's payload says, and what must become of it, all from one seed."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from app.domain.ids import JobId, TenantId, tenant_id

KNOWN, UNKNOWN = "ocr", "of-a-later-version"


class Fate(StrEnum):
    """What must become of a job, unless three workers were lost on it."""

    DONE = "done"
    EXHAUSTED = "exhausted"
    """Failed, after as many failures as it has attempts."""
    REFUSED = "refused"
    """Failed, by the first failure."""
    CANCELLED = "cancelled"
    CONTESTED = "contested"
    """Cancelled or done: the cancel races the work."""
    WAITING = "waiting"
    """Queued, and never run: no worker knows its kind."""
    DEADLY = "deadly"
    """Failed, for it kills whoever runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    job_id: JobId
    tenant: TenantId
    fate: Fate
    at: float
    """Seconds after the start at which it is enqueued."""
    rung: bool
    """Whether a bell follows the commit: else the sweeper finds it."""
    payload: Mapping[str, object] = field(default_factory=dict)
    kind: str = KNOWN
    max_attempts: int = 5
    run_in: float = 0
    cancel_in: float | None = None
    """Seconds from the commit to a request to cancel."""
    dedup_key: str | None = None


Traits = dict[str, object]
"""The fields of a planned job in which it differs."""


def _short(dice: random.Random) -> Traits:
    return {"fate": Fate.DONE, "payload": {"do": "result", "seconds": round(dice.uniform(0, 0.2), 3)}}


def _medium(dice: random.Random) -> Traits:
    return {"fate": Fate.DONE, "payload": {"do": "result", "seconds": round(dice.uniform(1, 3), 2)}}


def _longer_again(dice: random.Random) -> Traits:
    """Whoever lost its lease on the first attempt comes back while the second one runs."""
    return {"fate": Fate.DONE, "payload": {"do": "result", "seconds": round(dice.uniform(1, 3), 2), "again": 5}}


def _slow_to_commit(dice: random.Random) -> Traits:
    """Its settlement and its result are some time apart: a crash in between must take back both."""
    return {"fate": Fate.DONE, "payload": {"do": "result", "write": round(dice.uniform(0.2, 1), 2)}}


def _stumbling(dice: random.Random) -> Traits:
    """Its first attempt is to end otherwise than its last: whoever writes the one after the other is seen."""
    do = dice.choice(["raise", "retry", "snooze"])
    payload = {"do": do, "times": dice.choice([1, 1, 2]), "seconds": round(dice.uniform(0, 2), 2)}
    return {"fate": Fate.DONE, "payload": payload}


def _without_result(dice: random.Random) -> Traits:
    return {"fate": Fate.DONE, "payload": {"do": dice.choice(["nothing", "progress"]), "text": "page"}}


def _hopeless(dice: random.Random) -> Traits:
    return {"fate": Fate.EXHAUSTED, "payload": {"do": dice.choice(["raise", "retry"])}, "max_attempts": 2}


def _refused(dice: random.Random) -> Traits:
    return {"fate": Fate.REFUSED, "payload": {"do": dice.choice(["fail", "fault"])}}


def _cancelled_before(dice: random.Random) -> Traits:
    return {"fate": Fate.CANCELLED, "run_in": 600.0, "cancel_in": dice.uniform(0, 3), "payload": {"do": "result"}}


def _cancelled_within(dice: random.Random) -> Traits:
    return {"fate": Fate.CANCELLED, "cancel_in": dice.uniform(0.5, 3), "payload": {"do": "result", "seconds": 600}}


def _cancelled_anyhow(dice: random.Random) -> Traits:
    seconds = round(dice.uniform(0, 2), 2)
    return {
        "fate": Fate.CONTESTED,
        "cancel_in": dice.uniform(0, 2),
        "payload": {"do": "result", "seconds": seconds},
    }


def _deduplicated(dice: random.Random) -> Traits:
    """Of few tenants, so that some meet an equal one that has not ended."""
    return _medium(dice) | {"dedup_key": "same", "tenant": _tenant(dice.randrange(3))}


def _of_no_kind(_dice: random.Random) -> Traits:
    return {"fate": Fate.WAITING, "kind": UNKNOWN}


Mix = Mapping[Callable[[random.Random], Traits], float]

HARSH: Mix = {
    _short: 73,
    _medium: 6,
    _longer_again: 1,
    _slow_to_commit: 3,
    _stumbling: 4,
    _without_result: 3,
    _hopeless: 1.5,
    _refused: 1.5,
    _cancelled_before: 1,
    _cancelled_within: 1,
    _cancelled_anyhow: 2,
    _deduplicated: 2.5,
    _of_no_kind: 0.5,
}
"""In percent."""

BUSY: Mix = {**HARSH, _short: 50, _medium: 12, _longer_again: 8, _stumbling: 14}
"""More jobs at a time on each worker, for a short soak test to hit."""

CALM: Mix = {_short: 50, _medium: 50}
"""Nothing that fails by itself."""


def plan(
    *, seed: int, jobs: int, tenants: int, seconds: float, mix: Mix, blocking: int, deadly: int, lease: float
) -> list[Planned]:
    """The same for the same seed; `blocking` jobs hold up their worker's loop for longer than a lease."""
    dice = random.Random(f"load {seed}")  # noqa: S311 - repeatable is what it must be
    makers = dice.choices(list(mix), weights=list(mix.values()), k=jobs - blocking - deadly)
    traits = [make(dice) for make in makers]
    stiff: Traits = {"fate": Fate.DONE, "payload": {"do": "result", "seconds": lease + 2, "blocking": True}}
    traits += [stiff] * blocking
    # Early, for each costs three workers and three leases.
    deaths = [dice.uniform(0, seconds / 4) for _ in range(deadly)]
    traits += [{"fate": Fate.DEADLY, "payload": {"do": "die"}, "at": at} for at in deaths]
    return sorted((_planned(dice, its, tenants=tenants, seconds=seconds) for its in traits), key=lambda job: job.at)


def _planned(dice: random.Random, traits: Traits, *, tenants: int, seconds: float) -> Planned:
    fields: dict[str, object] = {
        "job_id": JobId(UUID(int=dice.getrandbits(128), version=4)),
        "tenant": _tenant(dice.randrange(tenants)),
        "at": dice.uniform(0, seconds),
        "rung": dice.random() < 0.7,
    }
    return Planned(**(fields | traits))  # type: ignore[arg-type]


def _tenant(number: int) -> TenantId:
    return tenant_id(f"tenant-{number}")
