"""An upload in parts. Nothing can be read before its end, and an upload that fails leaves nothing."""

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, TypeVar

import structlog

from app.adapters.s3.bucket import S3Bucket
from app.domain.errors import TooLarge, Unavailable

log = structlog.get_logger()
T = TypeVar("T")

PART = 8 * 1024 * 1024
"""Bytes. Each upload has two parts in memory: one being sent and one being filled."""

MOST_PARTS = 10_000
"""A limit of S3."""

ABORT_PATIENCE = 10
"""Seconds. Uploads that can't be aborted in this time are left to the purge and the bucket's lifecycle rule."""


async def store(bucket: S3Bucket, name: str, chunks: AsyncIterator[bytes]) -> None:
    """Store the chunks as one object: whole if they fit into one part, otherwise part by part.

    Raises Unavailable and TooLarge.
    """
    async with aclosing(_parts(chunks)) as parts:
        first = await anext(parts)
        if _size(first) < PART:
            await bucket.tell("ETag", "put_object", Key=name, Body=first)
        else:
            await _in_parts(bucket, name, _chain(first, parts))


async def abort(bucket: S3Bucket, name: str, upload_id: str) -> None:
    await bucket.call("abort_multipart_upload", Key=name, UploadId=upload_id)


async def _in_parts(bucket: S3Bucket, name: str, parts: AsyncIterator[io.BytesIO]) -> None:
    # Begun in a task of its own: if it were cancelled with its caller, an upload could remain whose id is unknown.
    begun = asyncio.create_task(_begin(bucket, name))
    try:
        upload_id = await asyncio.shield(begun)
        sent = await _send(bucket, name, upload_id, parts)
        await bucket.tell(
            "ETag", "complete_multipart_upload", Key=name, UploadId=upload_id, MultipartUpload={"Parts": sent}
        )
    except BaseException:
        await _to_its_end(_take_back(bucket, name, begun))
        raise


async def _begin(bucket: S3Bucket, name: str) -> str:
    return await bucket.tell("UploadId", "create_multipart_upload", Key=name)


async def _send(bucket: S3Bucket, name: str, upload_id: str, parts: AsyncIterator[io.BytesIO]) -> list[dict[str, Any]]:
    """Send the parts; one is sent while the next is filled."""
    sent: list[dict[str, Any]] = []
    on_its_way: asyncio.Task[dict[str, Any]] | None = None
    try:
        async for part in parts:
            if on_its_way:
                sent.append(await on_its_way)
            if len(sent) == MOST_PARTS:
                raise TooLarge(f"a blob in S3 has at most {PART * MOST_PARTS:,} bytes")
            on_its_way = asyncio.create_task(_send_one(bucket, name, upload_id, number=len(sent) + 1, part=part))
        if on_its_way:
            sent.append(await on_its_way)
        return sent
    finally:
        if on_its_way:
            on_its_way.cancel()
            await _to_its_end(_ended(on_its_way))


async def _send_one(bucket: S3Bucket, name: str, upload_id: str, *, number: int, part: io.BytesIO) -> dict[str, Any]:
    etag = await bucket.tell("ETag", "upload_part", Key=name, UploadId=upload_id, PartNumber=number, Body=part)
    return {"PartNumber": number, "ETag": etag}


async def _take_back(bucket: S3Bucket, name: str, begun: asyncio.Task[str]) -> None:
    try:
        async with asyncio.timeout(ABORT_PATIENCE):
            await asyncio.wait({begun})
            if begun.exception() is None:
                await abort(bucket, name, begun.result())
    except (Unavailable, TimeoutError) as error:
        begun.cancel()
        log.warning("upload_left_unfinished", bucket=bucket.name, object=name, reason=str(error))


async def _ended(task: asyncio.Task[Any]) -> None:
    """Wait for the task's end and drop its error, which asyncio would otherwise log as never retrieved."""
    await asyncio.gather(task, return_exceptions=True)


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end, however often the caller is cancelled meanwhile."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        raise


async def _parts(chunks: AsyncIterator[bytes]) -> AsyncGenerator[io.BytesIO]:
    """Parts of exactly PART bytes each, except the last. There is at least one, which may be empty."""
    part = io.BytesIO()
    async for chunk in chunks:
        rest = memoryview(chunk)
        while part.tell() + len(rest) >= PART:
            room = PART - part.tell()
            part.write(rest[:room])
            rest = rest[room:]
            yield _rewound(part)
            part = io.BytesIO()
        part.write(rest)
    yield _rewound(part)


async def _chain(first: io.BytesIO, others: AsyncIterator[io.BytesIO]) -> AsyncIterator[io.BytesIO]:
    yield first
    async for part in others:
        if _size(part):
            yield part


def _rewound(part: io.BytesIO) -> io.BytesIO:
    part.seek(0)
    return part


def _size(part: io.BytesIO) -> int:
    return part.getbuffer().nbytes
