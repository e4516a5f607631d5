"""The blob port: the bytes of documents, one prefix for each tenant."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Protocol

from app.domain.ids import TenantId

CHUNK = 1 << 20
"""Bytes handed on at a time."""


class Blobs(Protocol):
    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Store under `tenant/name`; readable all at once at the end, or not at all when `chunks` raises."""
        ...

    def get(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` up to, not including, `end`. Raises NotFound."""
        ...

    async def delete(self, key: str) -> None:
        """Gone afterwards; no error when it was not there."""
        ...

    async def delete_all(self, tenant_id: TenantId) -> None:
        """Everything of this tenant that was there is gone afterwards; no error when nothing was.

        What is just being put may stay or fail as Unavailable. Raises Invalid for a malformed tenant.
        """
        ...

    async def ping(self) -> None:
        """Raises Unavailable when nothing can be stored."""
        ...


class BlobInventory(Protocol):
    """What a tenant has in the blob store, for the purge. Raises Invalid for a malformed tenant."""

    def keys(self, tenant_id: TenantId, *, older_than: timedelta) -> AsyncIterator[str]:
        """Of the blobs whose bytes came longer ago, in no order. What is not a blob of ours is passed over."""
        ...

    async def clear_unfinished(self, tenant_id: TenantId, *, older_than: timedelta, dry_run: bool = False) -> int:
        """Remove what puts have left that began longer ago and came to no end; returns how many there were.

        One that is still under way fails as Unavailable. With `dry_run` they are only counted.
        """
        ...


class InventoriedBlobs(Blobs, BlobInventory, Protocol):
    """What every adapter is."""
