"""The store, behind one door: a transaction that is clamped to a tenant before its first statement."""

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from app.domain.ids import KeyId, TenantId
from app.domain.keys import ApiKey
from app.domain.tenants import Limits, Tenant, TenantState
from app.ports.documents import Answers, Documents, Pages, Search
from app.ports.jobs import Changes, IdempotencyKeys, Jobs, Usage, Webhooks


class Database(Protocol):
    def begin(self, tenant_id: TenantId) -> AbstractAsyncContextManager["Tx"]:
        """Open a transaction that sees and writes this tenant's rows alone; leaving commits, an exception rolls back.

        A row of another tenant is as if it were not there. Raises Invalid for a malformed tenant and
        Unavailable when the database can't be reached.
        """
        ...


class KeyedDatabase(Database, Protocol):
    """One that callers are known by."""

    async def presented(self, tenant_id: TenantId, secret_sha256: bytes) -> tuple[ApiKey, Tenant] | None:
        """The tenant's key with that secret, valid or not, and the tenant. In one round trip: each request asks.

        Raises as `begin` does.
        """
        ...


class Tx(Protocol):
    """An open transaction, of use until its context is left."""

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
        """Register the tenant; False when it is registered already."""
        ...

    async def get(self) -> Tenant | None: ...

    async def set_state(self, state: TenantState) -> bool:
        """False when there is no such tenant."""
        ...

    async def set_limits(self, limits: Limits) -> bool:
        """All of them; False when there is no such tenant."""
        ...

    async def lock(self) -> Tenant | None:
        """Wait until no other transaction holds this lock, and hold it to the end of this one: to count, then act.

        What is read afterwards includes all that earlier holders have committed. Take it last: whoever holds it may
        wait for nothing else. It is the lock that a claim counts running jobs under.
        """
        ...

    async def remove(self) -> bool:
        """Delete a suspended tenant with everything that it has in the store; False when there is none."""
        ...


class ApiKeys(Protocol):
    async def add(self, key: ApiKey) -> None: ...

    async def all(self) -> list[ApiKey]: ...

    async def revoke(self, key_id: KeyId) -> bool:
        """False when there is no such key; revoking twice keeps the first time."""
        ...

    async def expire(self, key_id: KeyId, *, at: datetime) -> bool:
        """Let the key end at that time, unless it ends sooner; False when there is no such key."""
        ...

    async def touch(self, key_id: KeyId) -> None:
        """Note that the key was used just now."""
        ...
