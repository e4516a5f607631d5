"""The database port. Every transaction is clamped to one tenant (limited to its rows) before the first statement."""

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from app.domain.ids import KeyId, TenantId
from app.domain.keys import ApiKey
from app.domain.tenants import Limits, Tenant, TenantState
from app.ports.documents import Answers, Documents, Pages, Search
from app.ports.jobs import Changes, IdempotencyKeys, Jobs, Usage, Webhooks


class Database(Protocol):
    def begin(self, tenant_id: TenantId) -> AbstractAsyncContextManager["Tx"]:
        """Open a transaction that sees and writes only this tenant's rows. Leaving it commits; an exception rolls back.

        Rows of other tenants are invisible. Raises Invalid for a malformed tenant and Unavailable when the database
        can't be reached.
        """
        ...


class KeyedDatabase(Database, Protocol):
    """A database that can look up API keys."""

    async def presented(self, tenant_id: TenantId, secret_sha256: bytes) -> tuple[ApiKey, Tenant, datetime] | None:
        """Return the tenant's key with that secret, valid or not, the tenant, and the store's time. None without a key.

        It takes one round trip, because every request calls it. Raises as `begin` does.
        """
        ...


class Tx(Protocol):
    """An open transaction, usable until its context is left."""

    @property
    def now(self) -> datetime:
        """The time at which the transaction began, by the store's clock.

        It is the time of all that the transaction makes, and the one by which it judges ages and ends. A process's own
        clock may be wrong, and then differs from that of the others.
        """
        ...

    def new_id(self) -> UUID:
        """Return a UUIDv7 of `now`, after those that the transaction has made before."""
        ...

    @property
    def tenant(self) -> "TenantRow": ...

    @property
    def keys(self) -> "ApiKeys": ...

    @property
    def documents(self) -> Documents: ...

    @property
    def pages(self) -> Pages: ...

    @property
    def search(self) -> Search: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def answers(self) -> Answers: ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def changes(self) -> Changes: ...

    @property
    def webhooks(self) -> Webhooks: ...

    @property
    def idempotency_keys(self) -> IdempotencyKeys: ...


class TenantRow(Protocol):
    async def add(self) -> bool:
        """Register the tenant. False when it is already registered."""
        ...

    async def get(self) -> Tenant | None: ...

    async def set_state(self, state: TenantState) -> bool:
        """Set the state. False when there is no such tenant."""
        ...

    async def set_limits(self, limits: Limits) -> bool:
        """Replace all limits. False when there is no such tenant."""
        ...

    async def lock(self) -> Tenant | None:
        """Wait for the tenant's lock and hold it to the end of this transaction, in order to count and then act.

        Later reads include everything that earlier holders committed. Take it last: its holder must not wait for any
        other lock. A claim counts running jobs under the same lock.
        """
        ...

    async def remove(self) -> bool:
        """Delete a suspended tenant with all its rows in the store. False when there is none."""
        ...


class ApiKeys(Protocol):
    async def add(self, key: ApiKey) -> None: ...

    async def all(self) -> list[ApiKey]: ...

    async def revoke(self, key_id: KeyId) -> bool:
        """Revoke the key. False when there is no such key. Revoking twice keeps the first time."""
        ...

    async def expire(self, key_id: KeyId, *, at: datetime) -> bool:
        """Let the key expire at that time, unless it expires sooner. False when there is no such key."""
        ...

    async def touch(self, key_id: KeyId) -> None:
        """Record that the key was used now."""
        ...
