"""One step after the other, in any order: afterwards the store holds what the model says, and nothing else."""

import asyncio
from collections.abc import Awaitable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from app.domain.doorbells import Ring
from app.domain.ids import JobId, TenantId
from app.domain.jobs import AttemptOutcome, Job, JobState, Progress
from app.domain.leases import Lease, LeaseBeat, Settlement
from app.domain.outcomes import settlement
from app.domain.tenants import Limits
from tests.conformance import job_model as model
from tests.conformance.job_ledger import Ledger
from tests.conformance.job_model import Model, Span
from tests.conformance.job_moves import (
    ACTS,
    CAPS,
    EARLY,
    EVERY_KIND,
    KINDS,
    LIMITS,
    MANY,
    NEW_JOBS,
    OVER,
    PASSES,
    PICKS,
    PULSES,
    SEVERAL,
    SOMETIMES,
    STINTS,
    TENANTS,
    WAITS,
    WORKERS,
    Act,
    Pick,
    Stint,
    Token,
)
from tests.conformance.store_under_test import Seen, StoreUnderTest
from tests.support.rig import LEASE, SECOND, Rig, new_job

T = TypeVar("T")

NOBODY = TenantId("nobody")
LIVELIEST = [JobState.CLAIMED, JobState.QUEUED, JobState.FAILED, JobState.CANCELLED, JobState.DONE]


class Boom(Exception):
    """What goes wrong while results are written."""


class JobMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.exits = AsyncExitStack()
        self.store = self.runner.run(self.exits.enter_async_context(self.open_store()))
        self.ledger = Ledger(span=model.exactly(self.store.now()))
        self.steps = 0
        self.counted: dict[JobId, tuple[int, int, int, int]] = {}
        self.ended: dict[JobId, Job] = {}

    def open_store(self) -> AbstractAsyncContextManager[StoreUnderTest]:
        raise NotImplementedError

    @override
    def teardown(self) -> None:
        try:
            self.runner.run(self.exits.aclose())
        finally:
            self.runner.close()

    @initialize(
        jobs=st.lists(st.tuples(TENANTS, NEW_JOBS), min_size=2, max_size=4),
        stints=STINTS,
        worker=WORKERS,
        tenant=TENANTS,
        cap=CAPS,
        suspended=SOMETIMES,
    )
    def some_jobs_are_under_way(
        self,
        *,
        jobs: list[tuple[int, dict[str, Any]]],
        stints: list[Stint],
        worker: str,
        tenant: int,
        cap: int | None,
        suspended: bool,
    ) -> None:
        """Hypothesis leaves most rules out of most games: each begins with a little of everything."""
        for owner, fields in jobs:
            self.enqueue(owner, fields)
        self.workers_do_a_job(stints)
        self.cap(tenant, cap)
        self.claim_all(worker)
        self.enqueue(*jobs[0])
        self.suspend_or_resume(tenant, suspended=suspended)

    @rule(tenant=TENANTS, fields=NEW_JOBS)
    def enqueue(self, tenant: int, fields: dict[str, Any]) -> None:
        document = self.store.documents[tenant]
        new = new_job(document_id=document.id, payload={"pages": [1]}, traceparent="00-trace", **fields)

        async def add() -> Job | None:
            async with self.rig.database.begin(document.tenant_id) as tx:
                return await tx.jobs.add(new)

        answer = self.do(add())
        self.ledger.enqueued(new, document.tenant_id, answer and self.store.job(answer))
        assert self.runner.run(self.store.told()) == self.ledger.seen, "callers are told something else"

    @rule(worker=WORKERS, kinds=KINDS, picks=SEVERAL)
    def claim(self, worker: str, kinds: frozenset[str], picks: list[Pick]) -> None:
        rings = [self.ring(pick) for pick in picks]
        claims = self.do(self.rig.leases.claim(rings, worker=worker, lease=LEASE, kinds=kinds))
        assert sorted(claim.ring for claim in claims) == sorted(set(rings))
        # Where a tenant may not run them all, the oldest are claimed.
        for claim in sorted(claims, key=lambda claim: claim.ring):
            self.ledger.claimed(claim, worker=worker, kinds=kinds)

    @rule(worker=WORKERS)
    def claim_all(self, worker: str) -> None:
        self.claim(worker, EVERY_KIND, [Pick(place) for place in range(len(self.ledger.jobs))])

    @rule(pulses=PULSES)
    def beat(self, pulses: list[tuple[Token, Progress | None]]) -> None:
        by_lease = {self.lease(token): progress for token, progress in pulses}
        sent = {lease: LeaseBeat(lease=lease, progress=progress) for lease, progress in by_lease.items()}
        beats = self.do(self.rig.leases.beat(list(sent.values()), lease=LEASE))
        assert len(beats) == len(sent)
        for beat in beats:
            self.ledger.beaten(sent[beat.lease], beat)

    @rule(acts=st.lists(ACTS, min_size=1, max_size=5))
    def settle(self, acts: list[Act]) -> None:
        settlements = [self.settlement_of(act) for act in acts]
        answers = self.do(self.rig.leases.settle(settlements))
        self.judge_settled(zip(acts, settlements, map(bool, answers), strict=True))

    @rule(act=ACTS, astray=SOMETIMES, fails=st.booleans())
    def settle_with_results(self, act: Act, *, astray: bool, fails: bool) -> None:
        settles, result = self.settlement_of(act), {"attempt": self.steps}
        own = self.job(act.token.pick).row.tenant_id
        tenant = next(name for name in self.store.tenants if (name == own) != astray)
        held = False

        async def apply() -> None:
            nonlocal held
            async with self.rig.database.begin(tenant) as tx:
                held = await tx.jobs.settle(settles) is not None
                if held and settles.state is JobState.DONE:
                    await tx.jobs.save_result(settles.lease.job_id, result)
                if fails:
                    raise Boom

        async def attempt() -> None:
            with suppress(Boom):
                await apply()

        self.do(attempt())
        if tenant == settles.lease.tenant_id:
            self.ledger.settled(settles, act.ending, held=held, committed=not fails, result=result)
        else:
            assert not held

    @rule(pick=PICKS)
    def cancel(self, pick: Pick) -> None:
        ring = self.ring(pick)
        self.ledger.cancelled(ring, self.do(self.ask_to_cancel(ring)))

    @rule(wait=WAITS)
    def time_passes(self, wait: timedelta) -> None:
        self.do(self.rig.advance(wait))

    @rule(tenants=PASSES, limit=LIMITS, early=EARLY)
    def sweep(self, tenants: list[int], limit: int, early: frozenset[str] | None) -> None:
        names = [[*self.store.tenants, NOBODY][tenant] for tenant in tenants]
        found = self.do(self.rig.sweeps.sweep(names, limit=limit, early=early))
        self.ledger.swept(found, names, limit=limit, early=early)

    @rule(early=EARLY)
    def scout(self, early: frozenset[str] | None) -> None:
        found = self.do(self.rig.sweeps.tenants_with_due_work(limit=MANY, early=early))
        self.ledger.scouted(found, early=early)

    @rule(stints=STINTS)
    def workers_do_a_job(self, stints: list[Stint]) -> None:
        """From the claim to the end in one step, for what is interesting needs several at one job."""
        for stint in stints:
            pick = replace(stint.pick, job=self.job(stint.pick).row.id)
            token = Token(pick)
            self.time_passes(stint.before)
            self.claim(stint.worker, EVERY_KIND, [pick])
            if stint.cancelled:
                self.cancel(pick)
            self.time_passes(stint.during)
            if stint.beats:
                self.beat([(token, stint.progress)])
            act = Act(token, stint.ending)
            if not stint.alone:
                self.settle([act])
                continue
            for astray, fails in ((True, False), (False, True), (False, False)):
                self.settle_with_results(act, astray=astray, fails=fails)

    @rule(worker=WORKERS, picks=SEVERAL, early=EARLY, over=OVER, relieved=SOMETIMES)
    def workers_are_lost(
        self,
        worker: str,
        picks: list[Pick],
        *,
        early: frozenset[str] | None = None,
        over: timedelta = SECOND,
        relieved: bool = False,
    ) -> None:
        """And their jobs, once they are found and swept."""
        self.claim(worker, EVERY_KIND, picks)
        self.time_passes(LEASE + over)
        if relieved:
            self.claim_all(worker)
        self.scout(early)
        self.sweep([0, 1], MANY, early)

    @rule(stints=STINTS, second=WORKERS)
    def a_worker_comes_late_to_a_job_that_was_claimed_again(self, stints: list[Stint], second: str) -> None:
        for stint in stints:
            pick = replace(stint.pick, job=self.job(stint.pick).row.id)
            self.workers_are_lost(stint.worker, [pick])
            self.claim(second, EVERY_KIND, [pick])
            if stint.beats:
                self.beat([(Token(pick, age=1), stint.progress)])
            self.settle([Act(Token(pick, age=1), stint.ending)])

    @rule(tenant=TENANTS, suspended=SOMETIMES)
    def suspend_or_resume(self, tenant: int, *, suspended: bool) -> None:
        name = self.store.tenants[tenant]
        if suspended:
            self.do(self.rig.suspend(name))
            self.ledger.suspended.add(name)
        else:
            self.do(self.rig.resume(name))
            self.ledger.suspended.discard(name)

    @rule(tenant=TENANTS, cap=CAPS)
    def cap(self, tenant: int, cap: int | None) -> None:
        name = self.store.tenants[tenant]

        async def limit() -> bool:
            async with self.rig.database.begin(name) as tx:
                return await tx.tenant.set_limits(Limits(max_running=cap))

        assert self.do(limit())
        self.ledger.caps.pop(name, None)
        if cap is not None:
            self.ledger.caps[name] = cap

    @invariant()
    def all_is_well(self) -> None:
        # The one: Hypothesis would list each of several after every step of a game that was lost.
        self.ledger.agrees()
        for key, seen in self.ledger.seen.items():
            self._no_counter_falls(seen.row)
            self._what_has_ended_stays_as_it_is(seen.row)
            self._each_attempt_was_given_to_one_worker_and_ended_once(seen, given=self.ledger.given.get(key, []))

    def _no_counter_falls(self, row: Job) -> None:
        counted = (row.attempts, row.failures, row.expiries, row.releases)
        before = self.counted.get(row.id, (0, 0, 0, 0))
        assert all(now >= then for now, then in zip(counted, before, strict=True))
        self.counted[row.id] = counted

    def _what_has_ended_stays_as_it_is(self, row: Job) -> None:
        if row.state.terminal:
            assert self.ended.setdefault(row.id, row) == row
        else:
            assert row.id not in self.ended

    def _each_attempt_was_given_to_one_worker_and_ended_once(self, seen: Seen, *, given: list[int]) -> None:
        attempts = list(range(1, seen.row.attempts + 1))
        is_held = seen.row.state is JobState.CLAIMED
        assert given == attempts
        assert [attempt.attempt for attempt in seen.history] == attempts[: len(attempts) - is_held]
        expired = [attempt for attempt in seen.history if attempt.outcome is AttemptOutcome.EXPIRED]
        assert seen.row.expiries == len(expired)

    @property
    def rig(self) -> Rig:
        return self.store.rig

    def do(self, acting: Awaitable[T]) -> T:
        """Take a step, and look at what it left behind."""
        return self.runner.run(self._step(acting))

    async def _step(self, acting: Awaitable[T]) -> T:
        since = self.store.now()
        answer = await acting
        span = Span(since=since, until=self.store.now())
        self.steps += 1
        self.ledger.look(span, await self.store.look())
        return answer

    async def ask_to_cancel(self, ring: Ring) -> Job | None:
        async with self.rig.database.begin(ring.tenant_id) as tx:
            answer = await tx.jobs.cancel(ring.job_id)
        return answer and self.store.job(answer[0])

    def job(self, pick: Pick) -> Model:
        jobs = sorted(self.ledger.jobs.values(), key=lambda job: LIVELIEST.index(job.row.state))
        return self.ledger.jobs[pick.job] if pick.job else jobs[pick.place % len(jobs)]

    def _tenant(self, pick: Pick) -> TenantId:
        own = self.job(pick).row.tenant_id
        (foreign,) = (tenant for tenant in self.store.tenants if tenant != own)
        return {"own": own, "other": foreign}.get(pick.under, NOBODY)

    def ring(self, pick: Pick) -> Ring:
        return Ring(self._tenant(pick), self.job(pick).row.id)

    def lease(self, token: Token) -> Lease:
        return model.token(self.job(token.pick), age=token.age, tenant=self._tenant(token.pick))

    def settlement_of(self, act: Act) -> Settlement:
        """As the worker makes one of a handler's outcome."""
        job = replace(
            model.handed_out(self.job(act.token.pick), waited=timedelta(), capped=False), lease=self.lease(act.token)
        )
        return replace(settlement(job, act.ending, jitter=0.5), progress=act.progress)

    def judge_settled(self, ended: Iterable[tuple[Act, Settlement, bool]]) -> None:
        for act, settles, held in ended:
            self.ledger.settled(settles, act.ending, held=held)
