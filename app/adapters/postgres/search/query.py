"""Search: candidates from the index of words, under row-level security, then the checks that no index can make."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import asyncpg
from sqlalchemy import exists, select

from app.adapters.postgres.clamped import ClampedConnection
from app.adapters.postgres.search import index
from app.adapters.postgres.search.candidates import Candidate, TermLookup, candidates
from app.adapters.postgres.tables import documents, indexed
from app.domain.errors import Unavailable
from app.domain.ids import DocumentId
from app.domain.search import CLOSE, OPEN, SearchHit, SearchPosition, SearchQuery, SearchResults, nothing_but_stop_words
from app.domain.text_search import ALL, CHARACTERS, config_of

# ruff: noqa: S608 - statements put together from our own parts

TIMEOUT = "set local statement_timeout = '5s'"

CHECKED = 200
"""Candidates whose text is checked in one request, where the index can't decide: some 1 ms each."""
AT_A_TIME = 50

# Only stemmings of the tenant's own documents: words of other languages would not be found anyway.
ASK = """
select s.stemming, q.query::text as query, querytree(q.query) as required
  from unnest($2::text[], $3::text[], $4::text[]) as s (stemming, config, text)
 cross join lateral (select websearch_to_tsquery(s.config::regconfig, s.text) as query offset 0) q
 where exists (select from daira.indexed i where i.tenant_id = $1 and i.stemming = s.stemming)
"""
WORDS = index.SPACED.format(text=f"({index.READ.format(text='p.text')})", stemming="s.stemming")
OF_PAGES = """
  from unnest($2::int[], $3::uuid[], $4::int[], $5::text[]) as c (number, document_id, page, stemming)
  join daira.pages p on p.tenant_id = $1 and p.document_id = c.document_id and p.number = c.page
  join unnest($6::text[], $7::text[], $8::text[], $9::text[]) as s (stemming, config, query, style)
    on s.stemming = c.stemming and s.style is not null
"""
FITTING = f"""
select c.number, min(c.stemming) as stemming {OF_PAGES}
 where to_tsvector(s.config::regconfig, {WORDS}) @@ s.query::tsquery
 group by c.number order by c.number
"""
SNIPPETS = f"""
select c.number, (select filename from daira.documents d where d.tenant_id = $1 and d.id = c.document_id) as filename,
       ts_headline(s.config::regconfig, translate({WORDS}, '{OPEN}{CLOSE}', '  '), s.query::tsquery, s.style) as snippet
{OF_PAGES} order by c.number
"""
LEXEME = re.compile(r"'((?:[^'\\]|''|\\.)*)'")
ESCAPED = re.compile(r"''|\\(.)")
INEXACT = re.compile(r"<(-|\d+)>|!")
"""Operators that an index of words can't check, in a query without its lexemes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresQuery:
    """A query as Postgres parses it."""

    lookups: Sequence[TermLookup]
    queries: Mapping[str, str]
    """All alternatives as one tsquery, by stemming."""
    exact: bool
    """True if having the words is enough for a page: nothing else needs to be checked."""


class PostgresSearch:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def index(self, document_id: DocumentId, *, only_new: bool = False) -> bool:
        return await index.index_document(self._clamped, document_id, only_new=only_new)

    async def unindexed(self, *, limit: int, after: DocumentId | None = None) -> list[DocumentId]:
        c = documents.c
        known = exists().where(indexed.c.tenant_id == c.tenant_id, indexed.c.document_id == c.id)
        wanted = [c.tenant_id == self._tenant_id, c.page_count.is_not(None), ~known]
        if after is not None:
            wanted.append(c.id > after)
        rows = await self._clamped.execute(select(c.id).where(*wanted).order_by(c.id).limit(limit))
        return [DocumentId(document_id) for document_id in rows.scalars()]

    async def find(
        self,
        query: SearchQuery,
        *,
        limit: int,
        after: SearchPosition | None = None,
        document_id: DocumentId | None = None,
    ) -> SearchResults:
        try:
            await self._clamped.call(TIMEOUT)
            parsed = await self._parse(query)
            return await self._find(parsed, limit=limit, after=after, document_id=document_id)
        except asyncpg.QueryCanceledError as error:
            raise Unavailable("the search takes too long; use rarer words, or try again later", public=True) from error

    async def _parse(self, query: SearchQuery) -> PostgresQuery:
        wanted = [(stemming, each.written(stemming)) for stemming in ALL for each in query.alternatives]
        stemmings, texts = [stemming for stemming, _ in wanted], [text for _, text in wanted]
        rows = await self._clamped.call(ASK, self._tenant_id, stemmings, [*map(config_of, stemmings)], texts)
        return _postgres_query([(row["stemming"], row["query"], row["required"]) for row in rows])

    async def _find(
        self, parsed: PostgresQuery, *, limit: int, after: SearchPosition | None, document_id: DocumentId | None
    ) -> SearchResults:
        most = limit + 1 if parsed.exact else CHECKED
        found = await candidates(self._clamped, parsed.lookups, document_id=document_id, after=after, limit=most)
        fitting = await self._fitting(parsed, found, enough=limit + 1)
        if len(fitting) > limit:
            more: SearchPosition | None = fitting[limit - 1][0]
        else:
            more = found[-1].place if len(found) == most else None
        return SearchResults(hits=await self._hits(parsed, fitting[:limit]), more=more)

    async def _fitting(
        self, parsed: PostgresQuery, found: Sequence[Candidate], *, enough: int
    ) -> list[tuple[SearchPosition, str]]:
        """The candidates that fit, each with the stemming that it was found by."""
        if parsed.exact:
            return [(candidate.place, candidate.stemmings[0]) for candidate in found]
        fitting: list[tuple[SearchPosition, str]] = []
        for first in range(0, len(found), AT_A_TIME):
            batch = found[first : first + AT_A_TIME]
            pages = [(n, each.place, stemming) for n, each in enumerate(batch) for stemming in each.stemmings]
            rows = await self._of_pages(FITTING, parsed, pages)
            fitting += [(batch[row["number"]].place, row["stemming"]) for row in rows]
            if len(fitting) >= enough:
                break
        return fitting

    async def _hits(self, parsed: PostgresQuery, fitting: Sequence[tuple[SearchPosition, str]]) -> list[SearchHit]:
        """The hits with their snippets. Pages removed meanwhile are left out."""
        pages = [(n, place, stemming) for n, (place, stemming) in enumerate(fitting)]
        rows = await self._of_pages(SNIPPETS, parsed, pages)
        return [
            SearchHit(
                document_id=(place := fitting[row["number"]][0]).document_id,
                page=place.page,
                rank=place.rank,
                filename=row["filename"],
                snippet=row["snippet"].replace(index.BLANK, "").replace(index.LESS, "<"),
            )
            for row in rows
        ]

    async def _of_pages(
        self, statement: str, parsed: PostgresQuery, pages: Sequence[tuple[int, SearchPosition, str]]
    ) -> list[asyncpg.Record]:
        """Execute a statement on pages; its rows come in the order of the pages' numbers."""
        stemmings = list(parsed.queries)
        return await self._clamped.call(
            statement,
            self._tenant_id,
            [number for number, _, _ in pages],
            [place.document_id for _, place, _ in pages],
            [place.page for _, place, _ in pages],
            [stemming for _, _, stemming in pages],
            stemmings,
            [*map(config_of, stemmings)],
            list(parsed.queries.values()),
            [*map(_style, stemmings)],
        )


def _postgres_query(rows: Sequence[tuple[str, str, str]]) -> PostgresQuery:
    """The query from its rows. Raises Invalid if there are stemmings but no word to search for in any of them."""
    lookups: list[TermLookup] = []
    queries: dict[str, list[str]] = {}
    for stemming, query, required in rows:
        if lexemes := _lexemes(required):
            lookups.append(TermLookup(stemming=stemming, lexemes=lexemes))
            queries.setdefault(stemming, []).append(f"({query})")
    if rows and not lookups:
        raise nothing_but_stop_words()
    whole = {stemming: " | ".join(parts) for stemming, parts in queries.items()}
    exact = not any(INEXACT.search(LEXEME.sub("", query)) for query in whole.values())
    return PostgresQuery(lookups=lookups, queries=whole, exact=exact)


def _lexemes(required: str) -> tuple[str, ...]:
    """The lexemes in a tsquery's text."""
    found = (ESCAPED.sub(lambda escaped: escaped[1] or "'", quoted) for quoted in LEXEME.findall(required))
    return tuple(dict.fromkeys(found))


def _style(stemming: str) -> str:
    """The options for snippets. If each character is a word, a line takes more of them."""
    most = 80 if stemming == CHARACTERS else 30
    return (
        f'StartSel="{OPEN}", StopSel="{CLOSE}", MaxFragments=2, ShortWord=0, MinWords={most // 3}, MaxWords={most},'
        ' FragmentDelimiter=" … "'
    )
