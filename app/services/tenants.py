"""Tenants and their keys: authentication by key or token, and the commands that administer both.

Names of all tenants come from one published query; everything else is read under the clamp of the one tenant.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from app.domain.errors import Conflict, Forbidden, NotFound, Unauthorized
from app.domain.ids import KeyId, TenantId
from app.domain.keys import EVERYDAY, NOT_VALID, PREFIX, ApiKey, Scope, key_text, new_secret, parse_key, secret_hash
from app.domain.tenants import Allowance, Caller, Tenant, TenantState
from app.ports.database import KeyedDatabase, Tx
from app.ports.leases import Sweeps
from app.ports.tokens import TokenVerifier, VerifiedToken

NAMES_AT_A_TIME = 500


async def each_tenant(sweeps: Sweeps) -> AsyncIterator[TenantId]:
    async for names in tenants_in_batches(sweeps, at_a_time=NAMES_AT_A_TIME):
        for name in names:
            yield name


async def tenants_in_batches(sweeps: Sweeps, *, at_a_time: int) -> AsyncIterator[list[TenantId]]:
    names = await sweeps.tenants(after=None, limit=at_a_time)
    while names:
        yield names
        names = await sweeps.tenants(after=names[-1], limit=at_a_time)


TOUCH_EVERY = timedelta(minutes=1)
"""A key's last use is only shown to people, so it is not written with each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantService:
    database: KeyedDatabase
    sweeps: Sweeps
    allowance: Allowance
    """The default limits, for tenants that have none of their own."""
    tokens: TokenVerifier | None = None
    """None accepts API keys only."""

    async def authenticate(self, credential: str) -> Caller:
        """Return the caller that has this credential.

        Raises Unauthorized, the same for unknown, wrong, revoked and expired ones; Forbidden if the tenant is
        suspended; Unavailable for a token whose issuer's keys can't be fetched.
        """
        if self.tokens is not None and not credential.startswith(PREFIX):
            return await self._token_caller(await self.tokens.read(credential))
        presented = parse_key(credential)
        found = await self.database.presented(presented.tenant_id, presented.secret_sha256)
        if found is None:
            raise Unauthorized(NOT_VALID)
        key, tenant, now = found
        if not key.valid_at(now):
            raise Unauthorized(NOT_VALID)
        _require_active(tenant)
        if key.last_used_at is None or now - key.last_used_at > TOUCH_EVERY:
            async with self.database.begin(tenant.id) as tx:
                await tx.keys.touch(key.id)
        return self._caller(tenant, name=key.name, scopes=key.scopes, now=now)

    async def create(self, tenant_id: TenantId) -> None:
        async with self.database.begin(tenant_id) as tx:
            if not await tx.tenant.add():
                raise Conflict(f"tenant {tenant_id} exists already")

    async def set_state(self, tenant_id: TenantId, state: TenantState) -> None:
        async with self.database.begin(tenant_id) as tx:
            if not await tx.tenant.set_state(state):
                raise NotFound(f"there is no tenant {tenant_id}")

    async def limit(self, tenant_id: TenantId, changes: Mapping[str, int | None]) -> Tenant:
        """Change these limits and leave the others; None resets one to the default. Raises Invalid for a bad limit."""
        async with self.database.begin(tenant_id) as tx:
            tenant = await tx.tenant.lock()
            if tenant is None:
                raise NotFound(f"there is no tenant {tenant_id}")
            limits = tenant.limits.changed(changes)
            await tx.tenant.set_limits(limits)
        return replace(tenant, limits=limits)

    async def all(self) -> list[Tenant]:
        """Return all tenants, each read under its own clamp."""
        tenants: list[Tenant] = []
        async for name in each_tenant(self.sweeps):
            async with self.database.begin(name) as tx:
                if tenant := await tx.tenant.get():
                    tenants.append(tenant)
        return tenants

    async def issue_key(
        self,
        tenant_id: TenantId,
        *,
        name: str,
        scopes: frozenset[Scope] = EVERYDAY,
        expires_in: timedelta | None = None,
    ) -> str:
        """Return a new key in full: it is shown once and stored as a hash. Raises NotFound for an unknown tenant."""
        async with self.database.begin(tenant_id) as tx:
            if await tx.tenant.get() is None:
                raise NotFound(f"there is no tenant {tenant_id}; create it with `daira tenant create {tenant_id}`")
            return await _add_key(tx, tenant_id, name=name, scopes=scopes, expires_in=expires_in)

    async def rotate_key(self, tenant_id: TenantId, key_id: KeyId, *, overlap: timedelta) -> str:
        """Return a new key with the old one's name, scopes and lifetime; the old one is accepted for the overlap.

        Raises NotFound for an unknown key, Conflict if it is no longer valid.
        """
        async with self.database.begin(tenant_id) as tx:
            old = next((key for key in await tx.keys.all() if key.id == key_id), None)
            if old is None:
                raise NotFound(f"tenant {tenant_id} has no key {key_id}")
            if not old.valid_at(tx.now):
                raise Conflict(f"key {key_id} is revoked or has expired; make a new one with `daira key create`")
            await tx.keys.expire(key_id, at=tx.now + overlap)
            lifetime = None if old.expires_at is None else old.expires_at - old.created_at
            return await _add_key(tx, tenant_id, name=old.name, scopes=old.scopes, expires_in=lifetime)

    async def keys(self, tenant_id: TenantId) -> list[ApiKey]:
        async with self.database.begin(tenant_id) as tx:
            return await tx.keys.all()

    async def revoke_key(self, tenant_id: TenantId, key_id: KeyId) -> None:
        async with self.database.begin(tenant_id) as tx:
            if not await tx.keys.revoke(key_id):
                raise NotFound(f"tenant {tenant_id} has no key {key_id}")

    async def _token_caller(self, token: VerifiedToken) -> Caller:
        async with self.database.begin(token.tenant_id) as tx:
            tenant = await tx.tenant.get()
        if tenant is None or not token.valid_at(tx.now):
            raise Unauthorized(NOT_VALID)
        _require_active(tenant)
        return self._caller(tenant, name=token.name, scopes=token.scopes, now=tx.now)

    def _caller(self, tenant: Tenant, *, name: str, scopes: frozenset[Scope], now: datetime) -> Caller:
        allowance = self.allowance.with_own(tenant.limits)
        return Caller(tenant_id=tenant.id, name=name, scopes=scopes, allowance=allowance, admitted_at=now)


def _require_active(tenant: Tenant) -> None:
    if tenant.state is not TenantState.ACTIVE:
        raise Forbidden("this tenant is suspended")


async def _add_key(
    tx: Tx, tenant_id: TenantId, *, name: str, scopes: frozenset[Scope], expires_in: timedelta | None
) -> str:
    secret = new_secret()
    await tx.keys.add(
        ApiKey(
            id=KeyId(tx.new_id()),
            tenant_id=tenant_id,
            name=name,
            secret_sha256=secret_hash(secret),
            scopes=scopes,
            created_at=tx.now,
            expires_at=None if expires_in is None else tx.now + expires_in,
        )
    )
    return key_text(tenant_id, secret)
