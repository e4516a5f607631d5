"""Checks that tenants are isolated from each other, and that all processes share one blob store."""

import hashlib
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta

from app.domain.doorbells import Ring
from app.domain.errors import NotFound
from app.domain.ids import TenantId
from app.domain.jobs import AttemptOutcome
from app.domain.leases import ClaimOutcome
from app.domain.selftest import KIND
from app.selftest.bench import CheckFailed, SelftestBench, ring_of
from app.selftest.recovery import LEASE

FAR_OFF = timedelta(hours=1)
"""The delay of a job that no worker claims by itself, so that any change to it was caused by the forged doorbell."""

SIZE = 100_000
"""Bytes of a blob: more than a block, and too few to burden a deployment."""


async def forged_bell(bench: SelftestBench) -> str:
    """A bell that names a job under another tenant reaches nothing."""
    job = await bench.enqueue(run_in=FAR_OFF)
    forged = ring_of(job, tenant=bench.other)
    # Under its own tenant the job exists and is not due.
    await _check_claim(bench, ring_of(job), ClaimOutcome.NOT_DUE)
    await _check_claim(bench, forged, ClaimOutcome.MISSING_OR_LOCKED)
    await bench.parts.doorbell.ring([forged])
    # Rung after it, and so answered after it.
    await bench.ended(await bench.ring(await bench.enqueue(tenant=bench.other)), within=bench.patience)
    if await bench.now(job) != job or await bench.history(job):
        raise CheckFailed("a job was changed by a bell that named it under another tenant")
    return "answered, the job untouched"


async def isolation(bench: SelftestBench) -> str:
    """No tenant sees or writes another's rows, and none can be seen or written without a tenant."""
    wall, mine, theirs = bench.parts.wall, bench.tenant, bench.other
    for tenant in (mine, theirs):
        await wall.furnish(tenant)
    if faults := await wall.faults(mine, theirs):
        raise CheckFailed("; ".join(faults))
    return f"{len(await wall.tables())} tables: no row of another tenant visible or writable, none without a tenant"


async def blobs(bench: SelftestBench) -> str:
    """Bytes are stored, read in whole and in part, and deleted."""
    store, (_, key), content = bench.parts.blobs, bench.blob(), secrets.token_bytes(SIZE)
    await store.put(key, _chunks(content))
    if await _read(store.get(key)) != content:
        raise CheckFailed("the bytes that were read differ from those stored")
    if await _read(store.get(key, start=10, end=SIZE // 2)) != content[10 : SIZE // 2]:
        raise CheckFailed("a range of the bytes differs from the one requested")
    await store.delete(key)
    try:
        await _read(store.get(key))
    except NotFound:
        return "stored, read, read in part, deleted"
    raise CheckFailed("deleted bytes can still be read")


async def shared_blobs(bench: SelftestBench) -> str:
    """Bytes that are stored here are read by the workers."""
    (blob, key), content = bench.blob(), secrets.token_bytes(SIZE)
    await bench.parts.blobs.put(key, _chunks(content))
    job = await bench.ended(await bench.ring(await bench.enqueue(blob=blob)), within=bench.patience)
    reader = (await bench.check_history(job, [AttemptOutcome.DONE])).worker
    assert isinstance(job.result, dict), "it is the last attempt's"
    if job.result["sha256"] != hashlib.sha256(content).hexdigest():
        raise CheckFailed(f"{reader} does not find bytes stored here; set DAIRA_BLOB_URL to the same store for all")
    return f"{reader} read the bytes stored here"


async def _check_claim(bench: SelftestBench, ring: Ring, expected: ClaimOutcome) -> None:
    (claim,) = await bench.parts.leases.claim([ring], worker="selftest", lease=LEASE, kinds=frozenset({KIND}))
    if claim.outcome is not expected:
        raise CheckFailed(f"a claim of the job under {_whose(bench, ring.tenant_id)} is answered {claim.outcome}")


def _whose(bench: SelftestBench, tenant: TenantId) -> str:
    return "its own tenant" if tenant == bench.tenant else "another tenant"


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    yield content[: SIZE // 3]
    yield content[SIZE // 3 :]


async def _read(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])
