"""Tenants and their keys: whom a credential belongs to, and the commands that administer them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.domain.errors import Conflict, Forbidden, NotFound, Unauthorized
from app.domain.ids import KeyId, TenantId, uuid7
from app.domain.keys import ApiKey, digest, key_text, new_secret, parse_key
from app.domain.tenants import Tenant, TenantState
from app.ports.database import Database
from app.ports.sweeps import Sweeps

TOUCH_EVERY = timedelta(minutes=1)
"""A key's last use is for people to read: not worth a write with each request."""

NAMES_AT_A_TIME = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    database: Database
    sweeps: Sweeps

    async def authenticate(self, credential: str) -> ApiKey:
        """The valid key of an active tenant. Unknown, wrong, revoked and expired are told apart to nobody."""
        presented = parse_key(credential)
        now = datetime.now(UTC)
        async with self.database.begin(presented.tenant_id) as tx:
            key = await tx.keys.with_secret(presented.secret_sha256)
            if key is None or not key.valid_at(now):
                raise Unauthorized("the API key is not valid")
            tenant = await tx.tenant.get()
            if tenant is None or tenant.state is not TenantState.ACTIVE:
                raise Forbidden("this tenant is suspended")
            if key.last_used_at is None or now - key.last_used_at > TOUCH_EVERY:
                await tx.keys.touch(key.id)
        return key

    async def create(self, tenant_id: TenantId) -> None:
        async with self.database.begin(tenant_id) as tx:
            if not await tx.tenant.add():
                raise Conflict(f"tenant {tenant_id} exists already")

    async def set_state(self, tenant_id: TenantId, state: TenantState) -> None:
        async with self.database.begin(tenant_id) as tx:
            if not await tx.tenant.set_state(state):
                raise NotFound(f"there is no tenant {tenant_id}")

    async def all(self) -> list[Tenant]:
        """Names through the published look across tenants, the rest under each one's clamp."""
        tenants: list[Tenant] = []
        names = await self.sweeps.tenants(after=None, limit=NAMES_AT_A_TIME)
        while names:
            for name in names:
                async with self.database.begin(name) as tx:
                    if tenant := await tx.tenant.get():
                        tenants.append(tenant)
            names = await self.sweeps.tenants(after=names[-1], limit=NAMES_AT_A_TIME)
        return tenants

    async def issue_key(self, tenant_id: TenantId, *, name: str, expires_in: timedelta | None = None) -> str:
        """A new key, whole: it is shown once and stored as a hash."""
        now = datetime.now(UTC)
        secret = new_secret()
        key = ApiKey(
            id=KeyId(uuid7()),
            tenant_id=tenant_id,
            name=name,
            secret_sha256=digest(secret),
            created_at=now,
            expires_at=None if expires_in is None else now + expires_in,
        )
        async with self.database.begin(tenant_id) as tx:
            if await tx.tenant.get() is None:
                raise NotFound(f"there is no tenant {tenant_id}: create it with `daira tenant create {tenant_id}`")
            await tx.keys.add(key)
        return key_text(tenant_id, secret)

    async def keys(self, tenant_id: TenantId) -> list[ApiKey]:
        async with self.database.begin(tenant_id) as tx:
            return await tx.keys.all()

    async def revoke_key(self, tenant_id: TenantId, key_id: KeyId) -> None:
        async with self.database.begin(tenant_id) as tx:
            if not await tx.keys.revoke(key_id):
                raise NotFound(f"tenant {tenant_id} has no key {key_id}")
