"""Who asks, once that is known: the tenant, by which name, and what may be asked."""

from dataclasses import dataclass

from app.domain.ids import TenantId
from app.domain.keys import Scope
from app.domain.tenants import Allowance


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    tenant_id: TenantId
    name: str
    """The key's, or a token's subject."""
    scopes: frozenset[Scope]
    allowance: Allowance

    def may(self, scope: Scope) -> bool:
        return not self.scopes.isdisjoint({scope, Scope.ADMIN})
