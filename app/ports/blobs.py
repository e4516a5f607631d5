"""The blob port: the bytes of documents, under one prefix for each tenant."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from app.domain.ids import TenantId

CHUNK = 1 << 20
"""Bytes passed on at a time."""


class Blobs(Protocol):
    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Store under `tenant/name`.

        The blob becomes readable as a whole at the end, or not at all when `chunks` raises.
        """
        ...

    def get(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes from `start` up to, not including, `end`. Raises NotFound."""
        ...

    async def delete(self, key: str) -> None:
        """Delete the blob. It is no error if it does not exist."""
        ...

    async def delete_all(self, tenant_id: TenantId) -> None:
        """Delete everything of this tenant. It is no error if there is nothing.

        A blob that is being put meanwhile may stay or fail as Unavailable. Raises Invalid for a malformed tenant.
        """
        ...

    async def ping(self) -> None:
        """Raises Unavailable when nothing can be stored."""
        ...


class BlobInventory(Protocol):
    """The list of a tenant's blobs, used by the purge. Raises Invalid for a malformed tenant.

    Times are of the store's own clock, which may be another machine's.
    """

    async def now(self) -> datetime:
        """Return the time that something stored now gets. Raises Unavailable when nothing can be stored."""
        ...

    def keys(self, tenant_id: TenantId, *, before: datetime) -> AsyncIterator[str]:
        """Yield the keys of blobs whose bytes arrived before then, in no order.

        Objects that are not Daira's blobs are skipped.
        """
        ...

    async def clear_unfinished(self, tenant_id: TenantId, *, before: datetime, dry_run: bool = False) -> int:
        """Remove the remains of puts that began before then and never ended. Return the number found.

        A put that is still under way fails as Unavailable. With `dry_run` they are only counted.
        """
        ...


class InventoriedBlobs(Blobs, BlobInventory, Protocol):
    """A blob store with an inventory, as every adapter is."""
