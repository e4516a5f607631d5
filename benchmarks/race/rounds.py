"""The run: one measure after the other, each in rounds with all competitors in turn."""

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.race.competitor import Competitor
from benchmarks.race.drain import Drain, bury, drain
from benchmarks.race.enqueue import enqueue
from benchmarks.race.figures import PEERS, Figures, best_drains
from benchmarks.race.idle import idle
from benchmarks.race.pickup import pickup
from benchmarks.race.plan import Plan
from benchmarks.race.processes import Broken
from benchmarks.race.program import Setting
from benchmarks.race.progress import Steps
from benchmarks.race.server import Server

TRIED_WITH = 0.25
"""The share of the jobs that is used to try each setting once."""


@dataclass(frozen=True, kw_only=True)
class Race:
    server: Server
    competitors: list[Competitor]
    plan: Plan
    steps: Steps
    notes: list[str]
    """Notes on competitors that dropped out."""
    figures: Figures = field(default_factory=Figures)

    async def run(self) -> Figures:
        for measure in self.plan.only:
            self.steps.begin(measure)
            await getattr(self, f"_{measure}")([each for each in self.competitors if each.takes_part(measure)])
        return self.figures

    async def _drain(self, takers: Sequence[Competitor]) -> None:
        async def try_all(taker: Competitor, _when: str) -> None:
            for setting in taker.about["settings"][: self.plan.settings]:
                jobs = max(1_000, int(self.plan.jobs * TRIED_WITH))
                self.figures.tries.append(await self._drained(taker, setting, jobs=jobs, when="a try"))

        async def drain_finalists(taker: Competitor, when: str) -> None:
            for setting in self._finalists(taker):
                row = await self._drained(taker, setting, jobs=self._jobs(taker), when=when)
                self.figures.drains.append(row)

        await self._in_turn(takers, try_all, rounds=1)
        await self._in_turn(takers, drain_finalists)
        for name, (label, _) in best_drains(self.figures.drains).items():
            taker = next(each for each in takers if each.name == name)
            taker.best = next(setting for setting in taker.about["settings"] if setting["label"] == label)

    async def _backlog(self, takers: Sequence[Competitor]) -> None:
        async def fill(taker: Competitor, _when: str) -> None:
            with self.steps.step(f"{taker.name} gets {self.plan.backlog:,} jobs"):
                await bury(taker, jobs=self.plan.backlog)

        async def drain_above(taker: Competitor, when: str) -> None:
            row = await self._drained(taker, taker.best, jobs=self._jobs(taker), when=when, keep=True)
            self.figures.backlogs.append(row)

        await self._in_turn(takers, fill, rounds=1)
        await self._in_turn(takers, drain_above)

    async def _enqueue(self, takers: Sequence[Competitor]) -> None:
        plan = self.plan

        async def add(taker: Competitor, when: str) -> None:
            with self.steps.step(f"{when}: {taker.name}"):
                rows = await enqueue(taker, jobs=plan.enqueues, connections=plan.connections, seconds=plan.limit / 2)
            self.figures.enqueues.extend(rows)

        await self._in_turn(takers, add)

    async def _pickup(self, takers: Sequence[Competitor]) -> None:
        async def pick_up(taker: Competitor, when: str) -> None:
            with self.steps.step(f"{when}: {taker.name}"):
                row = await pickup(taker, jobs=math.ceil(self.plan.pickups / self.plan.rounds))
            self.figures.pickups.append(row)

        await self._in_turn(takers, pick_up)

    async def _idle(self, takers: Sequence[Competitor]) -> None:
        plan = self.plan
        with self.steps.step(f"all at once, {plan.idle_settle:.0f} s and then {plan.idle_seconds:.0f} s"):
            rows = await idle(self.server, takers, settle=plan.idle_settle, seconds=plan.idle_seconds)
        self.figures.idles.extend(rows)

    async def _in_turn(
        self,
        takers: Sequence[Competitor],
        act: Callable[[Competitor, str], Awaitable[None]],
        *,
        rounds: int | None = None,
    ) -> None:
        rounds = rounds or self.plan.rounds
        for number in range(1, rounds + 1):
            for taker in takers:
                if taker in self.competitors:
                    with self._dropping_out(taker):
                        await act(taker, f"round {number} of {rounds}")

    @contextmanager
    def _dropping_out(self, taker: Competitor) -> Iterator[None]:
        """Let a peer that breaks lose its own further figures without ending the run."""
        try:
            yield
        except Broken as broken:
            if taker.name not in PEERS:
                raise
            self.notes.append(f"{taker.name} dropped out: {broken}")
            self.competitors.remove(taker)

    async def _drained(self, taker: Competitor, setting: Setting, *, jobs: int, when: str, keep: bool = False) -> Drain:
        with self.steps.step(f"{when}: {taker.name}, {setting['label']}"):
            return await drain(taker, setting, jobs=jobs, seconds=self.plan.limit, keep=keep)

    def _finalists(self, taker: Competitor) -> list[Setting]:
        rates = {row.setting: row.rate for row in self.figures.tries if row.competitor == taker.name}
        tried = [setting for setting in taker.about["settings"] if setting["label"] in rates]
        return sorted(tried, key=lambda setting: -rates[setting["label"]])[: self.plan.finalists]

    def _jobs(self, taker: Competitor) -> int:
        """The number of jobs, limited to those that can be done in time, because adding them takes time too."""
        rates = [row.rate for row in self.figures.tries if row.competitor == taker.name]
        return min(self.plan.jobs, math.ceil(max(rates) * self.plan.limit)) if rates else self.plan.jobs
