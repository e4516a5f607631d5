"""Search over a tenant's pages, and documents of before there was one made findable."""

from dataclasses import dataclass

from app.domain.ids import DocumentId, TenantId
from app.domain.search import SearchPosition, SearchResults, parse
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
        """Raises Invalid where there is nothing to look for."""
        wanted = parse(query)
        async with self.database.begin(tenant_id) as tx:
            return await tx.search.find(wanted, limit=limit, after=after, document_id=document_id)

    async def catch_up(self, tenant_id: TenantId) -> int:
        """Index what never was, document by document; how many those were."""
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
