"""The duration of a search among many pages, compared with the same query without row-level security.

Run: ./daira bench search

Fills a database with documents whose words are spread as in a language (Zipf), half of them of one tenant, and searches
as the program does: with the application's login under forced row-level security. It is compared, in turns on the same
server, with `gin`, a search without row-level security: a superuser, a stored tsvector, a GIN index, ts_rank_cd over
all that match, a snippet of the best; and with `plain scan`, `to_tsvector @@` over the tenant's pages under the
policies. Figures are milliseconds of wall time, first page of 20 hits; ratios are of medians.
"""

import argparse
import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Awaitable, Callable

import asyncpg

from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.ids import DocumentId, TenantId, uuid7
from app.domain.search import parse_query
from tests.support.databases import Cloned, Databases

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
A_DOCUMENT = 20
"""Pages of a document."""

DOCUMENT = """
insert into daira.documents (tenant_id, id, filename, media_type, size, sha256, language, page_count)
values ($1, $2, 'made.pdf', 'application/pdf', 1, $3, 'eng', $4)
"""
PAGES = """
insert into daira.pages (tenant_id, document_id, number, text, source, rotation, language)
select $1, $2, n, t, 'ocr', 0, 'eng' from unnest($3::text[]) with ordinality as u (t, n)
"""
GIN = """
alter table daira.pages add column found tsvector;
update daira.pages set found = to_tsvector('english', text);
create index pages_found on daira.pages using gin (found);
"""
ASK_GIN = """
select ts_headline('english', text, query, 'MaxFragments=2') from (
    select p.text, q.query from daira.pages p, websearch_to_tsquery('english', $2) as q (query)
     where p.tenant_id = $1 and p.found @@ q.query order by ts_rank_cd(p.found, q.query) desc limit 20) best
"""
SCAN = """
select count(*) from daira.pages where to_tsvector('english', text) @@ websearch_to_tsquery('english', $1)
"""
SIZES = """
select pg_size_pretty(sum(octet_length(text))), pg_size_pretty(pg_table_size('daira.terms')),
       pg_size_pretty(pg_indexes_size('daira.terms')), pg_size_pretty(pg_relation_size('daira.pages_found')),
       (select count(*) from daira.terms)
from daira.pages
"""


class Words:
    """Invented words. The word with number n occurs with a probability of about 1 in n + 2."""

    def __init__(self, chance: random.Random, count: int) -> None:
        self._chance = chance
        syllables = [a + b for a in "bcdfghjklmnprstvw" for b in "aeiou"]
        made: dict[str, None] = {}
        while len(made) < count:
            made["".join(chance.choices(syllables, k=chance.randint(2, 4))) + chance.choice("ntrk")] = None
        self.all = list(made)
        self._weights = list(itertools.accumulate(1 / (n + 2) for n in range(count)))

    def page(self, length: int) -> str:
        return " ".join(self._chance.choices(self.all, cum_weights=self._weights, k=length))


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pages", type=int, default=100_000, help="pages of the tenant, and as many of others")
    arguments.add_argument("--words", type=int, default=300, help="words of a page")
    arguments.add_argument("--rounds", type=int, default=20)
    options = arguments.parse_args()
    words = Words(random.Random(7), 50_000)  # noqa: S311 - the same words each time
    databases = Databases()
    await databases.start()
    try:
        async with databases.clone() as cloned:
            engine = PostgresEngine(cloned.app_url, pool_size=2, name="bench")
            await fill(cloned, PostgresDatabase(engine), words, pages=options.pages, length=options.words)
            await race(cloned, PostgresDatabase(engine), words, rounds=options.rounds)
            await engine.close()
    finally:
        databases.close()


async def fill(cloned: Cloned, database: PostgresDatabase, words: Words, *, pages: int, length: int) -> None:
    indexing = 0.0
    async with administer(cloned.admin_url) as admin:
        await admin.execute("insert into daira.tenants (tenant_id) values ('acme'), ('globex')")
        for tenant in [ACME, GLOBEX] * (pages // A_DOCUMENT):
            document_id = DocumentId(uuid7())
            await admin.execute(DOCUMENT, tenant, document_id, document_id.hex, A_DOCUMENT)
            await admin.execute(PAGES, tenant, document_id, [words.page(length) for _ in range(A_DOCUMENT)])
            started = time.perf_counter()
            async with database.begin(tenant) as tx:
                await tx.search.index(document_id)
            indexing += time.perf_counter() - started
        await admin.execute(GIN)
        await admin.execute("vacuum analyze")
        text, table, indexes, gin, rows = await admin.fetchrow(SIZES)
    print(f"{2 * pages:,} pages, half of them the tenant's, {length} words each, {A_DOCUMENT} to a document: {text}")
    print(
        f"indexed at {2 * pages / indexing:,.0f} pages/s; {rows:,} rows, {table}, indexes {indexes}; GIN alone {gin}\n"
    )


async def race(cloned: Cloned, database: PostgresDatabase, words: Words, *, rounds: int) -> None:
    common, usual, rare = words.all[0], words.all[300], words.all[20_000]
    queries = {
        "rare word": rare,
        "usual word": usual,
        "common word": common,
        "two words": f"{usual} {words.all[200]}",
        "common, rare": f"{common} {rare}",
        "phrase": f'"{common} {words.all[1]}"',
        "rare phrase": f'"{usual} {common}"',
        "one not other": f"{usual} -{common}",
        "alternatives": f"{usual} or {rare} or {words.all[400]}",
        "no such word": "unheard",
    }
    print(f"{'query':<14} {'pages':>7} {'p50':>8} {'p95':>8} {'gin p50':>8} {'ratio':>6} {'plain scan':>11}")
    async with administer(cloned.admin_url) as admin, administer(cloned.app_url) as app:
        for name, query in queries.items():
            ours, gins = [], []
            for _ in range(rounds):
                ours.append(await timed(lambda query=query: find(database, query)))  # type: ignore[misc]
                gins.append(await timed(lambda query=query: admin.fetch(ASK_GIN, ACME, query)))  # type: ignore[misc]
            found, scan = await scanned(app, query)
            median, gin = statistics.median(ours), statistics.median(gins)
            p95 = statistics.quantiles(ours, n=20)[-1]
            print(f"{name:<14} {found:>7,} {median:>8.1f} {p95:>8.1f} {gin:>8.1f} {median / gin:>6.2f} {scan:>11,.0f}")


async def find(database: PostgresDatabase, query: str) -> None:
    async with database.begin(ACME) as tx:
        await tx.search.find(parse_query(query), limit=20)


async def scanned(app: asyncpg.Connection, query: str) -> tuple[int, float]:
    """The number of pages that match, and the milliseconds that finding them without an index takes."""
    async with app.transaction():
        await app.execute("select set_config('app.tenant_id', 'acme', true)")
        await app.execute("set local statement_timeout = 0")
        started = time.perf_counter()
        found: int = await app.fetchval(SCAN, query, timeout=600)
    return found, (time.perf_counter() - started) * 1000


async def timed(act: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await act()
    return (time.perf_counter() - started) * 1000


asyncio.run(main())
