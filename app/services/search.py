"""Searches a tenant's pages, and indexes documents that are older than the index."""

from dataclasses import dataclass

from app.domain.ids import DocumentId, TenantId
from app.domain.search import SearchPosition, SearchResults, parse_query
from app.ports.database import Database
from app.services.fair_queue import FairSemaphore

AT_A_TIME = 500

MOST_OF_ONE = 64
"""Searches that a tenant may have under way or waiting, in one process."""


def search_turns(pool_size: int) -> FairSemaphore:
    """Turns for at most half of the pool's connections, and for one tenant half of these."""
    at_once = max(1, pool_size // 2 - 1)
    return FairSemaphore(
        at_once=at_once, share=max(1, at_once // 2), waiting=16 * MOST_OF_ONE, of_one=MOST_OF_ONE, what="search"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchService:
    database: Database
    turns: FairSemaphore
    """A search may hold its connection for seconds, so that tenants search in turn and leave connections to others."""

    async def find(
        self,
        tenant_id: TenantId,
        query: str,
        *,
        limit: int,
        after: SearchPosition | None,
        document_id: DocumentId | None,
    ) -> SearchResults:
        """Return pages that match the query, best first.

        Raises Invalid for a query without words, TooMany at the tenant's limit and Unavailable after a long wait.
        """
        wanted = parse_query(query)
        async with self.turns.counted_turn(tenant_id), self.database.begin(tenant_id) as tx:
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
