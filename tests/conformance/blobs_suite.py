"""`Blobs`: whole or not at all, and only where a key may point."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from app.domain.errors import Invalid, NotFound, Unavailable
from app.domain.ids import TenantId
from app.ports.blobs import CHUNK, Blobs

KEY = "acme/0197a2b8-7f3c-7000-8000-000000000001"

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


async def content(blobs: Blobs, key: str = KEY, *, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([chunk async for chunk in blobs.get(key, start=start, end=end)])


class BlobsSuite:
    async def test_what_was_put_is_read(self, blobs: Blobs) -> None:
        await blobs.put(KEY, chunks(b"Dear ", b"", b"Sir"))
        assert await content(blobs) == b"Dear Sir"

    async def test_nothing_can_be_stored_as_well(self, blobs: Blobs) -> None:
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
    async def test_a_range_is_read(self, blobs: Blobs, start: int, end: int | None, expected: bytes) -> None:
        await blobs.put(KEY, chunks(b"0123456789"))
        assert await content(blobs, start=start, end=end) == expected

    async def test_a_large_blob_comes_in_chunks(self, blobs: Blobs) -> None:
        part = bytes(range(256)) * 256
        whole = part * 50 + b"the end"
        await blobs.put(KEY, chunks(*[part] * 50, b"the end"))
        received = [chunk async for chunk in blobs.get(KEY)]
        assert all(0 < len(chunk) <= CHUNK for chunk in received)
        assert hashlib.sha256(b"".join(received)).digest() == hashlib.sha256(whole).digest()
        start, end = CHUNK - 3, CHUNK * 2 + 5
        assert await content(blobs, start=start, end=end) == whole[start:end]

    async def test_a_second_put_replaces_the_first(self, blobs: Blobs) -> None:
        await blobs.put(KEY, chunks(b"the first, and longer"))
        await blobs.put(KEY, chunks(b"the second"))
        assert await content(blobs) == b"the second"

    async def test_a_refused_put_leaves_nothing(self, blobs: Blobs) -> None:
        with pytest.raises(Refused):
            await blobs.put(KEY, refused(b"half of it"))
        with pytest.raises(NotFound):
            await content(blobs)

    async def test_a_refused_put_leaves_what_was_there(self, blobs: Blobs) -> None:
        await blobs.put(KEY, chunks(b"the first"))
        with pytest.raises(Refused):
            await blobs.put(KEY, refused(b"half of the second"))
        assert await content(blobs) == b"the first"

    async def test_a_cancelled_put_leaves_nothing(self, blobs: Blobs) -> None:
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

    async def test_nothing_is_readable_before_the_end(self, blobs: Blobs) -> None:
        async def peeking() -> AsyncIterator[bytes]:
            yield b"half of it, "
            with pytest.raises(NotFound):
                await content(blobs)
            yield b"and the rest"

        await blobs.put(KEY, peeking())
        assert await content(blobs) == b"half of it, and the rest"

    async def test_uploads_at_the_same_time_do_not_mix(self, blobs: Blobs) -> None:
        await asyncio.gather(*(blobs.put(KEY, chunks(*[bytes([n]) * 10_000] * 5)) for n in range(8)))
        assert await content(blobs) in {bytes([n]) * 50_000 for n in range(8)}

    async def test_a_reader_finishes_with_what_it_began(self, blobs: Blobs) -> None:
        old = b"o" * (CHUNK * 2)
        await blobs.put(KEY, chunks(old))
        reader = blobs.get(KEY)
        first = await anext(reader)
        await blobs.put(KEY, chunks(b"new"))
        assert first + b"".join([chunk async for chunk in reader]) == old

    async def test_a_missing_blob_is_not_found(self, blobs: Blobs) -> None:
        with pytest.raises(NotFound):
            await content(blobs)
        await blobs.put(KEY, chunks(b"of acme"))
        with pytest.raises(NotFound):
            await content(blobs, KEY.replace("acme", "bolt"))

    async def test_deleting_twice_is_no_error(self, blobs: Blobs) -> None:
        await blobs.put(KEY, chunks(b"Dear Sir"))
        for _ in range(2):
            await blobs.delete(KEY)
            with pytest.raises(NotFound):
                await content(blobs)

    @pytest.mark.threat(59)
    @pytest.mark.parametrize("key", HOSTILE)
    async def test_a_hostile_key_is_refused_before_anything_is_done(self, blobs: Blobs, key: str) -> None:
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

    async def test_all_of_a_tenants_blobs_are_deleted_and_no_other(self, blobs: Blobs) -> None:
        others = [KEY.replace("acme", name) for name in ("acme-2", "acme_", "acm", "bolt")]
        for key in (KEY, "acme/another", *others):
            await blobs.put(key, chunks(b"Dear Sir"))
        await blobs.delete_all(TenantId("acme"))
        for key in (KEY, "acme/another"):
            with pytest.raises(NotFound):
                await content(blobs, key)
        assert [await content(blobs, key) for key in others] == [b"Dear Sir"] * len(others)

    async def test_deleting_all_where_nothing_is_is_no_error_and_a_tenant_may_begin_again(self, blobs: Blobs) -> None:
        for _ in range(2):
            await blobs.delete_all(TenantId("acme"))
        await blobs.put(KEY, chunks(b"Dear Sir"))
        assert await content(blobs) == b"Dear Sir"

    @pytest.mark.parametrize("tenant", ["", ".", "..", "/", "acme/..", "acme/", "../bolt", "ACME", "a" * 64, "*"])
    async def test_nothing_is_deleted_for_a_hostile_tenant(self, blobs: Blobs, tenant: str) -> None:
        await blobs.put(KEY, chunks(b"Dear Sir"))
        with pytest.raises(Invalid):
            await blobs.delete_all(TenantId(tenant))
        assert await content(blobs) == b"Dear Sir"

    async def test_a_put_that_is_under_way_meanwhile_is_whole_or_not_at_all(self, blobs: Blobs) -> None:
        async def interrupted() -> AsyncIterator[bytes]:
            yield b"half of it, "
            await blobs.delete_all(TenantId("acme"))
            yield b"and the rest"

        with suppress(Unavailable):
            await blobs.put(KEY, interrupted())
        with suppress(NotFound):
            assert await content(blobs) == b"half of it, and the rest"

    async def test_the_store_answers_a_ping(self, blobs: Blobs) -> None:
        await blobs.ping()
