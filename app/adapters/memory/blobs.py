"""Blobs in memory, for development and tests."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

from app.domain import ids
from app.domain.documents import parse_blob_key
from app.domain.errors import NotFound
from app.domain.ids import TenantId
from app.ports.blobs import CHUNK


class MemoryBlobs:
    def __init__(self, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._blobs: dict[str, bytes] = {}
        self._stored_at: dict[str, datetime] = {}

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        parse_blob_key(key)
        received = bytearray()
        async for chunk in chunks:
            received += chunk
        self._blobs[key] = bytes(received)
        self._stored_at[key] = self._clock()

    def get(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        parse_blob_key(key)
        return self._read(key, start=start, end=end)

    async def delete(self, key: str) -> None:
        parse_blob_key(key)
        self._blobs.pop(key, None)

    async def delete_all(self, tenant_id: TenantId) -> None:
        prefix = f"{ids.tenant_id(tenant_id)}/"
        for key in [key for key in self._blobs if key.startswith(prefix)]:
            del self._blobs[key]

    async def now(self) -> datetime:
        return self._clock()

    async def keys(self, tenant_id: TenantId, *, before: datetime) -> AsyncIterator[str]:
        prefix = f"{ids.tenant_id(tenant_id)}/"
        for key in list(self._blobs):
            if key.startswith(prefix) and self._stored_at[key] < before:
                yield key

    async def clear_unfinished(self, tenant_id: TenantId, *, before: datetime, dry_run: bool = False) -> int:  # noqa: ARG002 - the port's
        """Do nothing: an unfinished put stores nothing."""
        ids.tenant_id(tenant_id)
        return 0

    async def ping(self) -> None:
        """Do nothing: the store is always there."""

    async def _read(self, key: str, *, start: int, end: int | None) -> AsyncIterator[bytes]:
        blob = self._blobs.get(key)
        if blob is None:
            raise NotFound(f"there is no blob {key}")
        stop = len(blob) if end is None else min(end, len(blob))
        for position in range(start, stop, CHUNK):
            yield blob[position : min(position + CHUNK, stop)]
