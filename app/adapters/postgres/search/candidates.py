"""Candidates: pages that have all words of an alternative, found and ranked by the index of words.

An alternative costs what its rarest word costs: all documents with that word are walked, and the other words are looked
up in each. If a word is in very many documents, the newest are walked.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.adapters.postgres.clamped import ClampedConnection
from app.adapters.postgres.search.index import OF_A_WEIGHT
from app.domain.ids import DocumentId
from app.domain.search import SearchPosition

# ruff: noqa: S608 - statements put together from our own parts

WEIGHT = (1 << OF_A_WEIGHT) - 1

WALKED = 10_000
"""Documents that one search walks, shared among its lookups: 100,000 pages in some 0.3 s."""

OF_A_WORD = """
t.tenant_id = $1 and t.lexeme = a.{lexeme} and t.stemming = a.stemming and ($2::uuid is null or t.document_id = $2)
"""
COUNT = f"""
select a.stemming, a.lexeme,
       (select count(*)
          from (select from daira.terms t where {OF_A_WORD.format(lexeme="lexeme")} limit {WALKED}) n) as many
  from unnest($3::text[], $4::text[]) as a (stemming, lexeme)
"""
# OFFSET 0 makes the planner look each row up by the whole key, whatever its estimates.
WALK = f"""
select document_id, page, max(rank) as rank, array_agg(distinct stemming) as stemmings
  from (select a.stemming, d.document_id, p.page, p.rank
          from unnest($3::text[], $4::text[], $5::text[], $6::int[]) as a (stemming, rarest, others, many)
         cross join lateral (select t.document_id, t.places from daira.terms t
                              where {OF_A_WORD.format(lexeme="rarest")} order by t.document_id desc limit $7) d
         cross join lateral (
               select u.place >> {OF_A_WEIGHT} as page, u.place & {WEIGHT} as rank
                 from unnest(d.places) as u (place) where a.many = 1
                union all
               select u.place >> {OF_A_WEIGHT}, (sum(u.place & {WEIGHT}) / a.many)::int
                 from (select d.places
                        union all
                       select w.places from jsonb_array_elements_text(a.others::jsonb) as o (lexeme)
                        cross join lateral (select t.places from daira.terms t
                                             where t.tenant_id = $1 and t.lexeme = o.lexeme and t.stemming = a.stemming
                                               and t.document_id = d.document_id offset 0) w) h
                cross join lateral unnest(h.places) as u (place)
                where a.many > 1
                group by 1 having count(*) = a.many) p) found
 group by document_id, page
having $8::int is null or (max(rank), document_id, -page) < ($8, $9::uuid, -$10::int)
 order by rank desc, document_id desc, page
 limit $11
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TermLookup:
    """The words of one alternative in one stemming, all of which a page must have."""

    stemming: str
    lexemes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    place: SearchPosition
    stemmings: tuple[str, ...]


async def candidates(
    clamped: ClampedConnection,
    lookups: Sequence[TermLookup],
    *,
    document_id: DocumentId | None,
    after: SearchPosition | None,
    limit: int,
) -> list[Candidate]:
    """The candidates, best first."""
    lookups = await _rarest_first(clamped, lookups, document_id)
    if not lookups:
        return []
    rows = await clamped.call(
        WALK,
        clamped.tenant_id,
        document_id,
        [lookup.stemming for lookup in lookups],
        [lookup.lexemes[0] for lookup in lookups],
        [json.dumps(lookup.lexemes[1:]) for lookup in lookups],
        [len(lookup.lexemes) for lookup in lookups],
        WALKED // len(lookups),
        *(after or (None, None, None)),
        limit,
    )
    return [
        Candidate(place=SearchPosition(row["rank"], row["document_id"], row["page"]), stemmings=tuple(row["stemmings"]))
        for row in rows
    ]


async def _rarest_first(
    clamped: ClampedConnection, lookups: Sequence[TermLookup], document_id: DocumentId | None
) -> list[TermLookup]:
    """Sort each lookup's words, rarest first. Lookups with a word that no document has are left out."""
    words = sorted({(lookup.stemming, lexeme) for lookup in lookups for lexeme in lookup.lexemes})
    stemmings, lexemes = [word[0] for word in words], [word[1] for word in words]
    rows = await clamped.call(COUNT, clamped.tenant_id, document_id, stemmings, lexemes)
    many = {(row["stemming"], row["lexeme"]): row["many"] for row in rows}
    sorted_ = [
        replace(lookup, lexemes=tuple(sorted(lookup.lexemes, key=lambda lexeme: many[lookup.stemming, lexeme])))
        for lookup in lookups
    ]
    return [lookup for lookup in sorted_ if many[lookup.stemming, lookup.lexemes[0]]]
