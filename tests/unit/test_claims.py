"""What a worker is told when it claims."""

import pytest

from app.domain.errors import Unavailable
from tests.support.rig import KIND, LEASE, ring_of
from tests.unit.bench import Away, Bench


async def test_a_claim_hands_out_what_is_claimed_and_counts_what_is_not(bench: Bench) -> None:
    tenant = await bench.rig.tenant()
    due, later, ended = [
        await bench.rig.enqueue(tenant),
        await bench.rig.enqueue(tenant, run_in=LEASE),
        await bench.rig.enqueue(tenant),
    ]
    await bench.rig.cancel(ended)
    rings = [ring_of(job) for job in (due, due, later, ended)]
    claims = await bench.execution().claim(rings, kinds=frozenset({KIND}))
    assert [claim.job.lease.job_id for claim in claims if claim.job] == [due.id]
    for outcome in ("claimed", "not_due", "cancelled"):
        assert bench.count("daira_claims_total", outcome=outcome) == 1
    (again,) = await bench.execution().claim(rings[:1], kinds=frozenset({KIND}))
    assert again.job is None
    assert bench.count("daira_claims_total", outcome="taken") == 1


async def test_a_claim_while_the_database_is_away_says_so(bench: Bench) -> None:
    job = await bench.rig.enqueue(await bench.rig.tenant())
    away = bench.execution(leases=Away(bench.rig.leases, claim=1))
    with pytest.raises(Unavailable):
        await away.claim([ring_of(job)], kinds=frozenset({KIND}))
