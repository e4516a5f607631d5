"""The index of words, filled by Postgres itself: for every word of a document, the pages that have it.

Rows are inserted in order, and under the lock of the document's row: of two concurrent runs for one document, one
waits.
"""

from app.adapters.postgres.clamped import ClampedConnection, locked_document
from app.domain.ids import DocumentId
from app.domain.search import MOST_RANK
from app.domain.text_search import CHARACTERS, SIMPLE, UNSPACED, config_of, stemmings

# ruff: noqa: S608 - statements put together from our own parts

MOST_OF_A_PAGE = 100_000
"""Characters of a page that are searched. A tsvector holds a mebibyte, and a character takes up to 8 bytes of it."""

MOST_OF_A_DOCUMENT = 10_000_000
"""Characters: some 5,000 pages, 6 s of the database's time."""

OF_A_WEIGHT = 10
"""Bits of a weight: 0 to 1,023. Page and weight share one number, because the row of a word found once is mostly
overhead."""
LAST_PAGE = (1 << 31 - OF_A_WEIGHT) - 1

LESS = "\x1e"
"""Replaces `<`. The parser would take the text after it for a tag and leave it out; of a script, all of its text."""

# NFKC unifies letters that look alike, and splits the ligature "fi". A soft hyphen shows at a line's end only. ASCII is
# skipped, because NFKC changes nothing in it and takes as long as finding the words.
READ = f"""
translate(left(case when octet_length({{text}}) = char_length({{text}}) then {{text}}
                    else replace(normalize({{text}}, nfkc), U&'\\00AD', '') end,
               {MOST_OF_A_PAGE}), '<', '{LESS}')
"""

BLANK = "\x1f"
"""A blank to the parser in every locale, removed from snippets. Surrounds each character that is a word of its own."""

SPACED = f"""
case when {{stemming}} = '{CHARACTERS}' then regexp_replace({{text}}, '([{UNSPACED}])', E'{BLANK}\\\\1{BLANK}', 'g')
     else {{text}} end
"""
KNOWN = "select from daira.indexed where tenant_id = $1 and document_id = $2 limit 1"
LANGUAGES = "select distinct language from daira.pages where tenant_id = $1 and document_id = $2"
FORGET = """
with gone as (delete from daira.indexed where tenant_id = $1 and document_id = $2)
delete from daira.terms where tenant_id = $1 and document_id = $2
"""
MARK = "insert into daira.indexed (tenant_id, document_id, stemming) select $1, $2, unnest($3::text[])"

# A word's weight on a page is that of BM25: its frequency, relative to the page's length (1,500 characters are usual);
# at least 1 and at most 1,000. Materialized, or the planner would parse each page's text repeatedly.
FILL = f"""
with read as materialized (
    select p.number, s.stemming, p.size,
           to_tsvector(s.config::regconfig, {SPACED.format(text="p.read", stemming="s.stemming")}) as words
      from (select number, language, read, char_length(read) as size,
                   sum(char_length(read)) over (order by number) as so_far
              from (select number, language, {READ.format(text="text")} as read
                      from daira.pages where tenant_id = $1 and document_id = $2 offset 0) r) p
      join unnest($3::text[], $4::text[], $5::text[]) as s (language, stemming, config) on s.language = p.language
     where (p.so_far <= {MOST_OF_A_DOCUMENT} or p.so_far = p.size) and p.number <= {LAST_PAGE}
)
insert into daira.terms (tenant_id, lexeme, stemming, document_id, places)
select $1, lexeme, stemming, $2, array_agg(number << {OF_A_WEIGHT} | weight)
  from (select w.lexeme, r.stemming, r.number,
               greatest(1, {MOST_RANK} * n.times / (n.times + 0.3 + 0.9 * r.size / 1500))::int as weight
          from read r
         cross join lateral unnest(r.words) as w (lexeme, positions, classes)
         cross join lateral (select cardinality(w.positions) as times) n
         order by w.lexeme, r.stemming, r.number) found
 group by lexeme, stemming
"""
ROOM_TO_SORT = "set local work_mem = '64MB'"


async def index_document(clamped: ClampedConnection, document_id: DocumentId, *, only_new: bool) -> bool:
    mine = (clamped.tenant_id, document_id)
    if not await locked_document(clamped, document_id) or (only_new and await clamped.call(KNOWN, *mine)):
        return False
    await clamped.call(FORGET, *mine)
    languages = [row["language"] for row in await clamped.call(LANGUAGES, *mine)]
    wanted = [(language, stemming) for language in languages for stemming in stemmings(language)]
    await clamped.call(ROOM_TO_SORT)
    await clamped.call(
        FILL,
        *mine,
        [language for language, _ in wanted],
        [stemming for _, stemming in wanted],
        [config_of(stemming) for _, stemming in wanted],
    )
    # A document without any word counts as indexed too.
    await clamped.call(MARK, *mine, sorted({stemming for _, stemming in wanted}) or [SIMPLE])
    return True
