"""Blobs as objects of an S3 bucket, `prefix/tenant/name`."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from app.adapters.aws.client import code_of
from app.adapters.s3.bucket import S3Bucket, S3Response
from app.adapters.s3.faults import BEYOND_THE_END, NO_OBJECT
from app.adapters.s3.upload import abort, store
from app.domain.documents import BLOB_NAME_PATTERN
from app.domain.errors import NotFound, Unavailable
from app.domain.ids import TenantId
from app.ports.blobs import CHUNK


class S3Blobs:
    def __init__(self, bucket: S3Bucket) -> None:
        """`bucket` must be open."""
        self._bucket = bucket

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Store a blob. A put that is cut off in its last request may have stored the whole blob."""
        await store(self._bucket, self._bucket.name_of(key), chunks)

    def get(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        return self._read(key, self._bucket.name_of(key), start=start, end=end)

    async def delete(self, key: str) -> None:
        await self._bucket.call("delete_object", Key=self._bucket.name_of(key))

    async def delete_all(self, tenant_id: TenantId) -> None:
        # Uploads first: one that completes meanwhile is an object by then, and deleted with the others.
        await self._abort_uploads(tenant_id, before=None)
        async for names in self._bucket.objects(tenant_id):
            if names:
                await self._delete(names)

    async def now(self) -> datetime:
        return await self._bucket.now()

    async def keys(self, tenant_id: TenantId, *, before: datetime) -> AsyncIterator[str]:
        start = len(self._bucket.folder(tenant_id))
        async for names in self._bucket.objects(tenant_id, before=before):
            for name in names:
                if BLOB_NAME_PATTERN.fullmatch(name[start:]):
                    yield f"{tenant_id}/{name[start:]}"

    async def clear_unfinished(self, tenant_id: TenantId, *, before: datetime, dry_run: bool = False) -> int:
        return await self._abort_uploads(tenant_id, before=before, dry_run=dry_run)

    async def _abort_uploads(self, tenant_id: TenantId, *, before: datetime | None, dry_run: bool = False) -> int:
        found = [upload async for upload in self._bucket.uploads(tenant_id, before=before)]
        for name, upload_id in found if not dry_run else []:
            await abort(self._bucket, name, upload_id)
        return len(found)

    async def ping(self) -> None:
        """Request a listing. The credentials' rights to store and delete are not tried."""
        await self._bucket.ping()

    async def _read(self, key: str, name: str, *, start: int, end: int | None) -> AsyncIterator[bytes]:
        with self._bucket.reachable():
            try:
                answer = await self._open(name, start=start, end=end)
            except ClientError as error:
                if code_of(error) in NO_OBJECT:
                    raise NotFound(f"there is no blob {key}") from None
                if code_of(error) not in BEYOND_THE_END:
                    raise
                return
        if body := answer.get("Body"):
            # Entering returns another object, which checks neither length nor checksum; so `body` is read.
            async with body:
                while chunk := await self._next(body):
                    yield chunk

    async def _open(self, name: str, *, start: int, end: int | None) -> S3Response:
        if end is not None and end <= start:
            # HTTP has no empty ranges, but a missing blob must still be reported.
            return await self._bucket.ask("head_object", Key=name)
        if start == 0 and end is None:
            return await self._bucket.ask("get_object", Key=name)
        last = "" if end is None else end - 1
        answer = await self._bucket.ask("get_object", Key=name, Range=f"bytes={start}-{last}")
        if "ContentRange" not in answer:
            answer["Body"].close()
            raise Unavailable(f"the bucket {self._bucket.name}: it sends whole objects where a range was requested")
        return answer

    async def _next(self, body: Any) -> bytes:
        with self._bucket.reachable():
            chunk: bytes = await body.read(CHUNK)
            return chunk

    async def _delete(self, names: Sequence[str]) -> None:
        objects = {"Objects": [{"Key": name} for name in names], "Quiet": True}
        answer = await self._bucket.call("delete_objects", Delete=objects)
        # The request may succeed while some of its objects fail.
        if errors := answer.get("Errors"):
            code = errors[0].get("Code", "unknown")
            raise Unavailable(f"the bucket {self._bucket.name}: {len(errors)} objects were not deleted ({code})")
