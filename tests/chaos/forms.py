"""How much of everything a soak test has: the short form for each commit, the full one for a release."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.chaos.load import BUSY, CALM, HARSH, Mix


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    jobs: int
    tenants: int
    workers: int
    seconds: float
    """From the first arrival to the last, and to the last harm."""
    harms: Mapping[str, int] = field(default_factory=dict)
    """How often, by the fault injector's name for it."""
    mix: Mix = field(default_factory=lambda: HARSH)
    blocking: int = 0
    """Jobs that hold up their worker's loop for longer than a lease."""
    deadly: int = 0
    """Jobs that kill whoever runs them."""
    wrong_clocks: bool = False
    lease: int = 5
    sweep: int = 2
    grace: int = 1
    slots: int = 16
    longest_end: float = 90
    """Seconds from the last harm to the end of the last job: retries, and what the harm has held up."""


SHORT = Form(
    jobs=300,
    tenants=10,
    workers=5,
    seconds=12,
    harms={
        "kill": 6,
        "stall": 1,
        "suspend": 3,
        "drain": 1,
        "crash": 1,
        "wipe": 1,
        "double": 1,
        "delay": 1,
        "forge": 1,
    },
    mix=BUSY,
    blocking=1,
    longest_end=45,
)

FULL = Form(
    jobs=10_150,
    tenants=100,
    workers=5,
    seconds=540,
    harms={
        "kill": 105,
        "stall": 8,
        "suspend": 12,
        "drain": 12,
        "restart": 3,
        "crash": 3,
        "freeze": 2,
        "refuse": 2,
        "wipe": 8,
        "double": 8,
        "delay": 8,
        "forge": 8,
        "step": 20,
    },
    blocking=6,
    deadly=2,
    wrong_clocks=True,
)

ELSEWHERE = Form(
    jobs=2_000,
    tenants=50,
    workers=4,
    seconds=130,
    harms={
        "kill": 24,
        "stall": 3,
        "suspend": 5,
        "drain": 3,
        "restart": 1,
        "crash": 1,
        "freeze": 1,
        "refuse": 1,
        "wipe": 5,
        "double": 3,
        "delay": 3,
        "forge": 3,
        "halt": 3,
        "step": 5,
    },
    blocking=2,
    deadly=1,
    wrong_clocks=True,
)
"""With the queue on a server of its own."""

ROLLING = Form(jobs=100_000, tenants=20, workers=4, seconds=4_000, mix=CALM, lease=30, longest_end=40)
"""Jobs without an end, for as long as restarts go on. Some take longer than the grace, so that they are given back."""
