"""`Blobs`: whole or not at all, and only where a key may point."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from app.domain.errors import Invalid, NotFound, Unavailable
from app.domain.ids import TenantId
from app.ports.blobs import CHUNK, InventoriedBlobs

ACME = TenantId("acme")
KEY = "acme/0197a2b8-7f3c-7000-8000-000000000001"

EVER = datetime.max.replace(tzinfo=UTC)
"""Ages count from a server's clock, and in whole seconds: what was written just now is older than this."""

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
LARGE = 20 * CHUNK
"""Bytes: several parts, for a store that has parts."""

HOSTILE = [
    "",
    "/",
    "acme",
    "acme/",
    "/name",
    "/etc/passwd",
    "..",
    "../name",
    "acme/..",
    "acme/.",
    "acme/../bolt",
    "acme/../../etc/passwd",
    "acme/sub/name",
    "acme//name",
    "acme/name/",
    "acme/.hidden",
    "./name",
    "acme\\name",
    "acme/..\\name",
    "C:/name",
    "ACME/name",
    "acme/Name",
    "acme/name.pdf",
    "acme/na me",
    "acme/name\n",
    "acme/name\0",
    "acme/nämé",
    "acme/%2e%2e",
    "~/name",
    "acme/" + "n" * 200,
    "a" * 64 + "/name",
]


class Refused(Exception):
    """What an upload is stopped with."""


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def refused(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    raise Refused


async def large(size: int = LARGE, *, seed: bytes = b"", then: type[Exception] | None = None) -> AsyncIterator[bytes]:
    """No two of its pieces are equal."""
    block = hashlib.sha256(seed).digest() * 2048
    for start in range(0, size, len(block)):
        yield (b"%016d" % start + block)[: min(len(block), size - start)]
    if then:
        raise then


async def digest(pieces: AsyncIterator[bytes]) -> str:
    """Nothing is kept of what passes."""
    digest = hashlib.sha256()
    async for piece in pieces:
        assert 0 < len(piece) <= CHUNK
        digest.update(piece)
    return digest.hexdigest()


async def keys(blobs: InventoriedBlobs, tenant: TenantId = ACME, *, before: datetime = EVER) -> list[str]:
    return sorted([key async for key in blobs.keys(tenant, before=before)])


async def an_hour_ago(blobs: InventoriedBlobs) -> datetime:
    return await blobs.now() - HOUR


async def nothing_is_left(blobs: InventoriedBlobs) -> bool:
    return not await blobs.clear_unfinished(ACME, before=EVER, dry_run=True) and not await keys(blobs)


async def nothing_but_blobs(blobs: InventoriedBlobs) -> bool:
    return not await blobs.clear_unfinished(ACME, before=EVER, dry_run=True)


async def content(blobs: InventoriedBlobs, key: str = KEY, *, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in blobs.get(key, start=start, end=end)])


class BlobsSuite:
    async def test_what_was_put_is_read(self, blobs: InventoriedBlobs) -> None:
        await blobs.put(KEY, chunks(b"Dear ", b"", b"Sir"))
        assert await content(blobs) == b"Dear Sir"

    async def test_nothing_can_be_stored_as_well(self, blobs: InventoriedBlobs) -> None:
        await blobs.put(KEY, chunks())
        assert await content(blobs) == b""

    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (0, None, b"0123456789"),
            (0, 10, b"0123456789"),
            (3, None, b"3456789"),
            (0, 4, b"0123"),
            (3, 4, b"3"),
            (3, 3, b""),
            (9, 100, b"9"),
            (10, None, b""),
            (50, 60, b""),
        ],
    )
    async def test_a_range_is_read(self, blobs: InventoriedBlobs, start: int, end: int | None, expected: bytes) -> None:
        await blobs.put(KEY, chunks(b"0123456789"))
        assert await content(blobs, start=start, end=end) == expected

    async def test_a_large_blob_comes_in_chunks(self, blobs: InventoriedBlobs) -> None:
        part = bytes(range(256)) * 256
        whole = part * 50 + b"the end"
        await blobs.put(KEY, chunks(*[part] * 50, b"the end"))
        received = [chunk async for chunk in blobs.get(KEY)]
        assert all(0 < len(chunk) <= CHUNK for chunk in received)
        assert hashlib.sha256(b"".join(received)).digest() == hashlib.sha256(whole).digest()
        start, end = CHUNK - 3, CHUNK * 2 + 5
        assert await content(blobs, start=start, end=end) == whole[start:end]

    async def test_a_second_put_replaces_the_first(self, blobs: InventoriedBlobs) -> None:
        await blobs.put(KEY, chunks(b"the first, and longer"))
        await blobs.put(KEY, chunks(b"the second"))
        assert await content(blobs) == b"the second"

    async def test_a_refused_put_leaves_nothing(self, blobs: InventoriedBlobs) -> None:
        with pytest.raises(Refused):
            await blobs.put(KEY, refused(b"half of it"))
        with pytest.raises(NotFound):
            await content(blobs)

    async def test_a_refused_put_leaves_what_was_there(self, blobs: InventoriedBlobs) -> None:
        await blobs.put(KEY, chunks(b"the first"))
        with pytest.raises(Refused):
            await blobs.put(KEY, refused(b"half of the second"))
        assert await content(blobs) == b"the first"

    async def test_a_cancelled_put_leaves_nothing(self, blobs: InventoriedBlobs) -> None:
        begun = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield b"half of it"
            begun.set()
            await asyncio.Event().wait()

        async with asyncio.timeout(10):
            upload = asyncio.create_task(blobs.put(KEY, endless()))
            await begun.wait()
            upload.cancel()
            await asyncio.gather(upload, return_exceptions=True)
        assert upload.cancelled()
        with pytest.raises(NotFound):
            await content(blobs)

    async def test_a_large_blob_is_read_as_it_was_put_and_in_parts(self, blobs: InventoriedBlobs) -> None:
        whole = b"".join([piece async for piece in large()])
        assert len(whole) == LARGE
        await blobs.put(KEY, large())
        assert await digest(blobs.get(KEY)) == hashlib.sha256(whole).hexdigest()
        edges = [8 * CHUNK - 1, 8 * CHUNK, 8 * CHUNK + 1, 16 * CHUNK, LARGE - 1]
        for start, end in [(edges[0], edges[1]), (edges[1], edges[2]), (edges[0], edges[3] + 1), (edges[4], LARGE)]:
            assert await content(blobs, start=start, end=end) == whole[start:end]
        assert await content(blobs, start=edges[4]) == whole[-1:]
        assert await nothing_but_blobs(blobs)

    @pytest.mark.parametrize("size", [8 * CHUNK - 1, 8 * CHUNK, 8 * CHUNK + 1, 16 * CHUNK])
    async def test_a_blob_may_have_any_size(self, blobs: InventoriedBlobs, size: int) -> None:
        await blobs.put(KEY, large(size))
        assert await digest(blobs.get(KEY)) == await digest(large(size))

    async def test_a_blob_may_come_in_one_piece(self, blobs: InventoriedBlobs) -> None:
        whole = b"".join([piece async for piece in large()])
        await blobs.put(KEY, chunks(whole))
        assert await digest(blobs.get(KEY)) == hashlib.sha256(whole).hexdigest()

    async def test_a_large_blob_replaces_a_small_one_and_a_small_one_a_large(self, blobs: InventoriedBlobs) -> None:
        await blobs.put(KEY, chunks(b"small"))
        await blobs.put(KEY, large())
        assert await digest(blobs.get(KEY)) == await digest(large())
        await blobs.put(KEY, chunks(b"small again"))
        assert await content(blobs) == b"small again"

    async def test_a_large_put_that_is_refused_leaves_nothing_unfinished(self, blobs: InventoriedBlobs) -> None:
        with pytest.raises(Refused):
            await blobs.put(KEY, large(then=Refused))
        assert await nothing_is_left(blobs)

    async def test_a_large_put_that_is_refused_leaves_what_was_there(self, blobs: InventoriedBlobs) -> None:
        await blobs.put(KEY, large(seed=b"first"))
        with pytest.raises(Refused):
            await blobs.put(KEY, large(seed=b"second", then=Refused))
        assert await digest(blobs.get(KEY)) == await digest(large(seed=b"first"))
        assert await nothing_but_blobs(blobs)

    @pytest.mark.parametrize("size", [0, CHUNK, 8 * CHUNK, LARGE])
    async def test_a_put_that_is_cancelled_in_the_middle_leaves_nothing_unfinished(
        self, blobs: InventoriedBlobs, size: int
    ) -> None:
        begun = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            async for piece in large(size):
                yield piece
            begun.set()
            await asyncio.Event().wait()

        async with asyncio.timeout(30):
            upload = asyncio.create_task(blobs.put(KEY, endless()))
            await begun.wait()
            upload.cancel()
            await asyncio.gather(upload, return_exceptions=True)
        assert upload.cancelled()
        assert await nothing_is_left(blobs)

    async def test_large_uploads_at_the_same_time_do_not_mix(self, blobs: InventoriedBlobs) -> None:
        seeds = [b"%d" % n for n in range(3)]
        await asyncio.gather(*(blobs.put(f"acme/{n}", large(seed=seed)) for n, seed in enumerate(seeds)))
        for n, seed in enumerate(seeds):
            assert await digest(blobs.get(f"acme/{n}")) == await digest(large(seed=seed))

    async def test_nothing_is_readable_before_the_end(self, blobs: InventoriedBlobs) -> None:
        async def peeking() -> AsyncIterator[bytes]:
            yield b"half of it, "
            with pytest.raises(NotFound):
                await content(blobs)
            yield b"and the rest"

        await blobs.put(KEY, peeking())
        assert await content(blobs) == b"half of it, and the rest"

    async def test_uploads_at_the_same_time_do_not_mix(self, blobs: InventoriedBlobs) -> None:
        await asyncio.gather(*(blobs.put(KEY, chunks(*[bytes([n]) * 10_000] * 5)) for n in range(8)))
        assert await content(blobs) in {bytes([n]) * 50_000 for n in range(8)}

    async def test_a_reader_finishes_with_what_it_began(self, blobs: InventoriedBlobs) -> None:
        old = b"o" * (CHUNK * 2)
        await blobs.put(KEY, chunks(old))
        reader = blobs.get(KEY)
        first = await anext(reader)
        await blobs.put(KEY, chunks(b"new"))
        assert first + b"".join([chunk async for chunk in reader]) == old

    async def test_a_missing_blob_is_not_found(self, blobs: InventoriedBlobs) -> None:
        for start, end in [(0, None), (3, None), (3, 7), (3, 3)]:
            with pytest.raises(NotFound):
                await content(blobs, start=start, end=end)
        await blobs.put(KEY, chunks(b"of acme"))
        with pytest.raises(NotFound):
            await content(blobs, KEY.replace("acme", "bolt"))

    async def test_deleting_twice_is_no_error(self, blobs: InventoriedBlobs) -> None:
        await blobs.put(KEY, chunks(b"Dear Sir"))
        for _ in range(2):
            await blobs.delete(KEY)
            with pytest.raises(NotFound):
                await content(blobs)

    @pytest.mark.threat(59)
    @pytest.mark.parametrize("key", HOSTILE)
    async def test_a_hostile_key_is_refused_before_anything_is_done(self, blobs: InventoriedBlobs, key: str) -> None:
        begun = False

        async def watched() -> AsyncIterator[bytes]:
            nonlocal begun
            begun = True
            yield b"Dear Sir"

        with pytest.raises(Invalid):
            await blobs.put(key, watched())
        with pytest.raises(Invalid):
            await content(blobs, key)
        with pytest.raises(Invalid):
            await blobs.delete(key)
        assert not begun

    async def test_all_of_a_tenants_blobs_are_deleted_and_no_other(self, blobs: InventoriedBlobs) -> None:
        others = [KEY.replace("acme", name) for name in ("acme-2", "acme_", "acm", "bolt")]
        for key in (KEY, "acme/another", *others):
            await blobs.put(key, chunks(b"Dear Sir"))
        await blobs.delete_all(TenantId("acme"))
        for key in (KEY, "acme/another"):
            with pytest.raises(NotFound):
                await content(blobs, key)
        assert [await content(blobs, key) for key in others] == [b"Dear Sir"] * len(others)

    async def test_deleting_all_where_nothing_is_is_no_error_and_a_tenant_may_begin_again(
        self, blobs: InventoriedBlobs
    ) -> None:
        for _ in range(2):
            await blobs.delete_all(TenantId("acme"))
        await blobs.put(KEY, chunks(b"Dear Sir"))
        assert await content(blobs) == b"Dear Sir"

    @pytest.mark.parametrize("tenant", ["", ".", "..", "/", "acme/..", "acme/", "../bolt", "ACME", "a" * 64, "*"])
    async def test_nothing_is_deleted_for_a_hostile_tenant(self, blobs: InventoriedBlobs, tenant: str) -> None:
        await blobs.put(KEY, chunks(b"Dear Sir"))
        with pytest.raises(Invalid):
            await blobs.delete_all(TenantId(tenant))
        with pytest.raises(Invalid):
            await keys(blobs, TenantId(tenant))
        with pytest.raises(Invalid):
            await blobs.clear_unfinished(TenantId(tenant), before=EVER)
        assert await content(blobs) == b"Dear Sir"

    async def test_a_put_that_is_under_way_meanwhile_is_whole_or_not_at_all(self, blobs: InventoriedBlobs) -> None:
        async def interrupted() -> AsyncIterator[bytes]:
            yield b"half of it, "
            await blobs.delete_all(TenantId("acme"))
            yield b"and the rest"

        with suppress(Unavailable):
            await blobs.put(KEY, interrupted())
        with suppress(NotFound):
            assert await content(blobs) == b"half of it, and the rest"

    async def test_the_keys_of_a_tenant_are_listed_and_no_others(self, blobs: InventoriedBlobs) -> None:
        mine = sorted([KEY, *(f"acme/{n}" for n in range(5))])
        for key in (*mine, *(KEY.replace("acme", name) for name in ("acme-2", "acme_", "acm", "bolt"))):
            await blobs.put(key, chunks(b"Dear Sir"))
        assert await keys(blobs) == mine
        assert await keys(blobs, TenantId("ac")) == []

    async def test_keys_are_listed_by_their_age(self, blobs: InventoriedBlobs) -> None:
        await blobs.put(KEY, chunks(b"Dear Sir"))
        assert await keys(blobs, before=await an_hour_ago(blobs)) == []
        assert await keys(blobs) == [KEY]

    async def test_the_stores_time_is_that_of_what_is_put_now(self, blobs: InventoriedBlobs) -> None:
        before = await blobs.now()
        await blobs.put(KEY, chunks(b"Dear Sir"))
        assert before <= await blobs.now() <= before + MINUTE
        assert await keys(blobs, before=before - MINUTE) == []
        assert await keys(blobs, before=before + MINUTE) == [KEY]

    async def test_what_is_listed_can_be_deleted_meanwhile(self, blobs: InventoriedBlobs) -> None:
        for n in range(20):
            await blobs.put(f"acme/{n}", chunks(b"Dear Sir"))
        async for key in blobs.keys(ACME, before=EVER):
            await blobs.delete(key)
        assert await keys(blobs) == []

    async def test_a_put_under_way_is_no_key_and_what_is_young_is_not_cleared(self, blobs: InventoriedBlobs) -> None:
        async def looking() -> AsyncIterator[bytes]:
            async for piece in large(12 * CHUNK):
                yield piece
            assert await keys(blobs) == []
            assert await blobs.clear_unfinished(ACME, before=await an_hour_ago(blobs)) == 0
            yield b"the end"

        await blobs.put(KEY, looking())
        assert (await content(blobs, start=12 * CHUNK)) == b"the end"

    async def test_what_is_old_is_cleared_where_anything_is_kept_of_it(self, blobs: InventoriedBlobs) -> None:
        counted: list[int] = []

        async def clearing() -> AsyncIterator[bytes]:
            async for piece in large(12 * CHUNK):
                yield piece
            counted.extend([await blobs.clear_unfinished(ACME, before=EVER, dry_run=True) for _ in range(2)])
            counted.extend([await blobs.clear_unfinished(ACME, before=EVER) for _ in range(2)])
            assert await blobs.clear_unfinished(TenantId("bolt"), before=EVER) == 0
            yield b"the end"

        with suppress(Unavailable):
            await blobs.put(KEY, clearing())
        assert counted in ([1, 1, 1, 0], [0, 0, 0, 0])
        assert await nothing_but_blobs(blobs)

    async def test_the_store_answers_a_ping(self, blobs: InventoriedBlobs) -> None:
        await blobs.ping()
