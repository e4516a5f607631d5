"""Claim, beat and settle: one function call each, for any number of jobs and tenants."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta

import asyncpg

from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.stored import known_name, stored_object
from app.domain.doorbells import Ring
from app.domain.ids import JobId, TenantId
from app.domain.jobs import JobError, Progress
from app.domain.leases import (
    BeatResult,
    ClaimedJob,
    ClaimOutcome,
    ClaimResult,
    Lease,
    LeaseBeat,
    SettledAttempt,
    Settlement,
)
from app.domain.outcomes import DeliveryRings
from app.domain.text import scrub_error, scrub_progress
from app.domain.webhooks import KIND as WEBHOOK

CLAIM = "select * from daira.claim($1, $2, $3, $4, $5, $6)"
BEAT = "select * from daira.beat($1, $2, $3, $4::text[]::jsonb[], $5)"
SETTLE = "select * from daira.settle($1, $2, $3, $4, $5, $6::text[]::jsonb[], $7, $8, $9, $10::text[]::jsonb[], $11)"


class PostgresLeases:
    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    async def claim(
        self,
        rings: Sequence[Ring],
        *,
        worker: str,
        lease: timedelta,
        kinds: frozenset[str],
        recognition: int | None = None,
    ) -> list[ClaimResult]:
        tenants = [ring.tenant_id for ring in rings]
        jobs = [ring.job_id for ring in rings]
        rows = await self._engine.call(CLAIM, tenants, jobs, worker, lease, sorted(kinds), recognition)
        return [_claim(row) for row in rows]

    async def beat(self, pulses: Sequence[LeaseBeat], *, lease: timedelta) -> list[BeatResult]:
        progress = [_progress(pulse.progress) for pulse in pulses]
        rows = await self._engine.call(BEAT, *_fences([pulse.lease for pulse in pulses]), progress, lease)
        return [
            BeatResult(lease=_lease(row, "attempt"), held=row["held"], cancel_requested=row["cancel_requested"])
            for row in rows
        ]

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettledAttempt | None]:
        # Of two settlements of one lease the first counts, because it ends the lease.
        first = {settlement.lease: settlement for settlement in reversed(settlements)}
        rows = await self._engine.call(SETTLE, *settle_arguments(list(first.values())))
        settled = {_lease(row, "attempt"): SettledAttempt(bells=delivery_bells(row)) for row in rows if row["held"]}
        return [settled.get(s.lease) if s is first[s.lease] else None for s in settlements]


def settle_arguments(settlements: Sequence[Settlement]) -> tuple[object, ...]:
    """The arguments of SETTLE. A transaction that saves results uses them too, with one settlement."""
    return (
        *_fences([s.lease for s in settlements]),
        [s.state for s in settlements],
        [s.outcome for s in settlements],
        [_error(s.error) for s in settlements],
        [s.delay for s in settlements],
        [s.failures for s in settlements],
        [s.releases for s in settlements],
        [_progress(s.progress) for s in settlements],
        [s.recognition for s in settlements],
    )


def delivery_bells(row: asyncpg.Record) -> DeliveryRings:
    """The bells of the deliveries in a row that SETTLE returned."""
    return [(WEBHOOK, Ring(row["tenant_id"], delivery)) for delivery in row["deliveries"] or ()]


def _fences(leases: Sequence[Lease]) -> tuple[list[TenantId], list[JobId], list[int]]:
    return (
        [lease.tenant_id for lease in leases],
        [lease.job_id for lease in leases],
        [lease.attempt for lease in leases],
    )


def _claim(row: asyncpg.Record) -> ClaimResult:
    ring = Ring(row["tenant_id"], row["job_id"])
    outcome = known_name(ClaimOutcome, row["outcome"], otherwise=ClaimOutcome.MISSING_OR_LOCKED)
    return ClaimResult(ring=ring, outcome=outcome, job=_claimed(row) if outcome is ClaimOutcome.CLAIMED else None)


def _claimed(row: asyncpg.Record) -> ClaimedJob:
    return ClaimedJob(
        lease=_lease(row, "attempts"),
        kind=row["kind"],
        document_id=row["document_id"],
        payload=stored_object(row["payload"]),
        failures=row["failures"],
        max_attempts=row["max_attempts"],
        traceparent=row["traceparent"],
        waited=row["waited"],
        capped=row["capped"],
    )


def _lease(row: asyncpg.Record, attempt: str) -> Lease:
    return Lease(tenant_id=row["tenant_id"], job_id=row["job_id"], attempt=row[attempt])


def _progress(progress: Progress | None) -> str | None:
    return json.dumps(asdict(scrubbed)) if (scrubbed := scrub_progress(progress)) else None


def _error(error: JobError | None) -> str | None:
    """The error as storable JSON: without NUL or lone surrogates, and without a megabyte of traceback."""
    return json.dumps(asdict(scrubbed)) if (scrubbed := scrub_error(error)) else None
