"""A search reads what it looks for, however much there is beside it; and why it has an index of its own."""

from app.adapters.postgres.database import PostgresDatabase, PostgresTx
from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.ids import tenant_id
from app.domain.search import parse_query
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig

DOCUMENTS = """
insert into daira.documents (tenant_id, id, filename, media_type, size, sha256, language, page_count)
select t, md5(t || n)::uuid, 'a', 'text/plain', 1, md5(n::text), 'eng', 1
from unnest(array['acme', 'globex']) t, generate_series(1, 3000) n
"""
PAGES = """
insert into daira.pages (tenant_id, document_id, number, text, source, rotation, language)
select tenant_id, id, 1, 'common word' || sha256, 'ocr', 0, 'eng' from daira.documents
"""
TERMS = """
insert into daira.terms (tenant_id, lexeme, stemming, document_id, places)
select tenant_id, lexeme, 'english', id, array[1 << 10 | 500]
from daira.documents, unnest(array['common', 'word' || sha256]) lexeme
"""
INDEXED = (
    "insert into daira.indexed (tenant_id, stemming, document_id) select tenant_id, 'english', id from daira.documents"
)

WALKS = """
select pg_stat_get_xact_numscans('daira.terms'::regclass) + pg_stat_get_xact_numscans('daira.pages'::regclass)
     + pg_stat_get_xact_numscans('daira.documents'::regclass) as walks,
       pg_stat_get_xact_tuples_fetched('daira.terms_pkey'::regclass) as terms,
       pg_stat_get_xact_tuples_fetched('daira.pages_pkey'::regclass) as pages
"""


async def filled(cloned: Cloned, engine: PostgresEngine) -> str:
    """A word that only one page has."""
    for name in ("acme", "globex"):
        await postgres_rig(cloned, engine).tenant(name)
    async with administer(cloned.admin_url) as admin:
        for statement in (DOCUMENTS, PAGES, TERMS, INDEXED, "vacuum analyze"):
            await admin.execute(statement)
        # A snapshot of somebody else's keeps rows from being known as visible to all, and an index from sufficing.
        while await admin.fetchval("select relallvisible < relpages from pg_class where oid = 'daira.terms'::regclass"):
            await admin.execute("vacuum daira.terms")
        rare: str = await admin.fetchval("select 'word' || sha256 from daira.documents limit 1")
    return rare


async def test_a_search_walks_no_table_and_reads_what_its_rarest_word_has(
    cloned: Cloned, engine: PostgresEngine
) -> None:
    rare = await filled(cloned, engine)
    for query in (rare, f"common {rare}", f'"common {rare}"', f"{rare} -other", f"{rare} or nothing"):
        async with PostgresDatabase(engine).begin(tenant_id("acme")) as tx:
            assert isinstance(tx, PostgresTx)
            assert len((await tx.search.find(parse_query(query), limit=20)).hits) == 1
            (row,) = await tx.search._clamped.call(WALKS)
        assert row["walks"] == 0, query
        assert row["terms"] < 20, query
        assert row["pages"] < 10, query


async def test_an_index_of_full_text_is_of_no_use_behind_the_wall(cloned: Cloned, engine: PostgresEngine) -> None:
    """Should this fail, a Postgres has come that can: decision 0032 is to be made anew."""
    rare = await filled(cloned, engine)
    async with administer(cloned.admin_url) as admin:
        await admin.execute("create index on daira.pages using gin (to_tsvector('english', text))")
        await admin.execute("vacuum analyze daira.pages")
        unwalled = await explained(admin, rare)
    async with administer(cloned.app_url) as app, app.transaction():
        await app.execute("select set_config('app.tenant_id', 'acme', true)")
        walled = await explained(app, rare)
    assert "Bitmap Index Scan on pages_to_tsvector_idx" in unwalled
    assert "pages_to_tsvector_idx" not in walled
    assert "Rows Removed by Filter: 2999" in walled


async def explained(connection: object, word: str) -> str:
    query = "select number from daira.pages where to_tsvector('english', text) @@ to_tsquery('english', $1)"
    rows = await connection.fetch(f"explain (analyze) {query}", word)  # type: ignore[attr-defined]
    return "\n".join(row[0] for row in rows)
