"""Two steps at the same moment: whoever is first, the store ends where one after the other would have ended."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

from app.domain.ids import TenantId
from app.domain.jobs import Job
from app.domain.leases import BeatResult, ClaimOutcome, ClaimResult, LeaseBeat, SettledAttempt
from app.ports.database import Tx
from app.ports.leases import SweptJob
from tests.conformance.job_machine import JobMachine
from tests.conformance.job_moves import ACTS, EVERY_KIND, KINDS, MANY, PICKS, SEVERAL, WORKERS, Act, Pick, Token
from tests.support.rig import LEASE, SECOND

T = TypeVar("T")
U = TypeVar("U")

MOMENT = 0.01
"""Seconds: for somebody to come to the row that is locked, and to wait there."""


class JobEncounters(JobMachine):
    @rule(kinds=KINDS, picks=SEVERAL, others=SEVERAL)
    def both_workers_claim_at_once(self, kinds: frozenset[str], picks: list[Pick], others: list[Pick]) -> None:
        async def claims(worker: str, picks: list[Pick]) -> list[tuple[str, ClaimResult]]:
            rings = [self.ring(pick) for pick in picks]
            answers = await self.rig.leases.claim(rings, worker=worker, lease=LEASE, kinds=kinds)
            assert sorted(claim.ring for claim in answers) == sorted(set(rings))
            return [(worker, claim) for claim in answers]

        async def both() -> list[tuple[str, ClaimResult]]:
            anna, bert = await asyncio.gather(claims("anna", picks + others), claims("bert", others + picks[1:]))
            return anna + bert

        self._judge_race(self.do(both()), kinds=kinds)

    @rule(acts=st.lists(ACTS, min_size=1, max_size=5))
    def workers_come_late_and_meet_the_sweeper(self, acts: list[Act]) -> None:
        """Each attempt ends once: by its worker, or by the sweeper."""
        self.time_passes(LEASE + SECOND)
        # Holders alone: a late worker has nothing to end, but for that moment its row is locked and passed over.
        latest = [replace(act, token=Token(act.token.pick)) for act in acts]
        latest = [act for act in latest if self.ledger.holding(self.lease(act.token))]
        settlements = [self.settlement_of(act) for act in latest]

        async def meet() -> tuple[list[SettledAttempt | None], list[SweptJob]]:
            return await asyncio.gather(
                self.rig.leases.settle(settlements), self.rig.sweeps.sweep(self.store.tenants, limit=MANY)
            )

        answers, found = self.do(meet())
        ended = list(zip(latest, settlements, map(bool, answers), strict=True))
        self.judge_settled(end for end in ended if end[2])
        self.ledger.swept(found, self.store.tenants, limit=MANY, early=None)
        self.judge_settled(end for end in ended if not end[2])

    @rule(picks=SEVERAL)
    def workers_beat_late_and_meet_the_sweeper(self, picks: list[Pick]) -> None:
        """A lease is renewed, or it is over; a beat that finds the sweeper at the job has no answer."""
        self.time_passes(LEASE + SECOND)
        # Not where there is a cap: how many bells have room then depends on who came first.
        leases = {self.lease(Token(pick)) for pick in picks}
        held = [lease for lease in leases if self.ledger.holding(lease) and lease.tenant_id not in self.ledger.caps]
        pulses = [LeaseBeat(lease=lease) for lease in sorted(held)]

        async def meet() -> tuple[list[BeatResult], list[SweptJob]]:
            return await asyncio.gather(
                self.rig.leases.beat(pulses, lease=LEASE), self.rig.sweeps.sweep(self.store.tenants, limit=MANY)
            )

        beats, found = self.do(meet())
        for beat in beats:
            if beat.held:
                self.ledger.beaten(LeaseBeat(lease=beat.lease), beat)
        self.ledger.swept(found, self.store.tenants, limit=MANY, early=None)
        for beat in beats:
            if not beat.held:
                self.ledger.beaten(LeaseBeat(lease=beat.lease), beat)

    @rule(act=ACTS, first=st.booleans())
    def a_caller_cancels_just_when_it_ends(self, act: Act, *, first: bool) -> None:
        """The one waits for the other's transaction, and then sees what it did."""
        ring, settles = self.ring(act.token.pick), self.settlement_of(act)
        if first:
            asked = self._meanwhile(
                ring.tenant_id, lambda tx: tx.jobs.cancel(ring.job_id), lambda: self.rig.leases.settle([settles])
            )
            stored, (held,) = self.do(asked)
            self.ledger.cancelled(ring, stored and self.store.job(stored[0]))
            self.ledger.settled(settles, act.ending, held=held is not None)
        else:
            settled = self._meanwhile(
                ring.tenant_id, lambda tx: tx.jobs.settle(settles), lambda: self.ask_to_cancel(ring)
            )
            held, answer = self.do(settled)
            self.ledger.settled(settles, act.ending, held=held is not None)
            self.ledger.cancelled(ring, answer)

    @rule(worker=WORKERS, pick=PICKS)
    def a_caller_cancels_just_when_it_is_claimed(self, worker: str, pick: Pick) -> None:
        ring = self.ring(pick)

        async def meet() -> tuple[Job | None, list[ClaimResult]]:
            claims = self.rig.leases.claim([ring], worker=worker, lease=LEASE, kinds=EVERY_KIND)
            return await asyncio.gather(self.ask_to_cancel(ring), claims)

        answer, (claim,) = self.do(meet())
        if claim.outcome is not ClaimOutcome.CANCELLED:
            self.ledger.claimed(claim, worker=worker, kinds=EVERY_KIND, contended=True)
            self.ledger.cancelled(ring, answer)
        else:
            self.ledger.cancelled(ring, answer)
            self.ledger.claimed(claim, worker=worker, kinds=EVERY_KIND)

    async def _meanwhile(
        self, tenant: TenantId, begun: Callable[[Tx], Awaitable[T]], comes: Callable[[], Awaitable[U]]
    ) -> tuple[T, U]:
        """Somebody comes before the transaction is over that another one has begun."""
        async with self.rig.database.begin(tenant) as tx:
            answer = await begun(tx)
            coming = asyncio.ensure_future(comes())
            await asyncio.wait({coming}, timeout=MOMENT)
        return answer, await coming

    def _judge_race(self, answers: Sequence[tuple[str, ClaimResult]], *, kinds: frozenset[str]) -> None:
        """Whoever locked a row answers for it; the other one came afterwards, or found it locked."""
        told = {claim.ring for _, claim in answers if claim.outcome is not ClaimOutcome.MISSING_OR_LOCKED}
        assert told == {claim.ring for _, claim in answers if self.ledger.at(claim.ring)}
        changes = [ClaimOutcome.CLAIMED, ClaimOutcome.SUSPENDED, ClaimOutcome.UNKNOWN_KIND]
        for worker, claim in sorted(answers, key=lambda answer: answer[1].outcome not in changes):
            self.ledger.claimed(claim, worker=worker, kinds=kinds, contended=True)
