"""Searches a tenant's pages, and indexes documents that are older than the index."""

from dataclasses import dataclass

from app.domain.ids import DocumentId, TenantId
from app.domain.search import SearchPosition, SearchResults, parse_query
from app.ports.database import Database

AT_A_TIME = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchService:
    database: Database

    async def find(
        self,
        tenant_id: TenantId,
        query: str,
        *,
        limit: int,
        after: SearchPosition | None,
        document_id: DocumentId | None,
    ) -> SearchResults:
        """Return pages that match the query, best first. Raises Invalid for a query without words."""
        wanted = parse_query(query)
        async with self.database.begin(tenant_id) as tx:
            return await tx.search.find(wanted, limit=limit, after=after, document_id=document_id)

    async def catch_up(self, tenant_id: TenantId) -> int:
        """Index documents that never were, one by one. Returns their number."""
        count = 0
        after: DocumentId | None = None
        while True:
            async with self.database.begin(tenant_id) as tx:
                found = await tx.search.unindexed(limit=AT_A_TIME, after=after)
            for after in found:
                async with self.database.begin(tenant_id) as tx:
                    count += await tx.search.index(after, only_new=True)
            if len(found) < AT_A_TIME:
                return count
