"""Pages and drafts, with words as compact arrays: [text, x0, y0, x1, y1, confidence, line, block, source]."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, delete, func, select

from app.adapters.postgres.clamped import ClampedConnection, holds, known_faults, locked_document
from app.adapters.postgres.stored import known_name, known_names, stored_list
from app.adapters.postgres.tables import drafts, pages
from app.domain.errors import NotFound
from app.domain.ids import DocumentId, JobId
from app.domain.leases import Lease
from app.domain.pages import Page, Source, Word
from app.domain.text import scrub
from app.domain.warnings import WarningCode

# ruff: noqa: S608 - statements put together from the columns' names

COLUMNS = "number, text, source, confidence, width, height, rotation, language, words, warnings"

INSERT = f"""
insert into daira.{{table}} (tenant_id, {{owner}}, {COLUMNS})
select $1, $2, u.number, u.text, u.source, u.confidence, u.width, u.height, u.rotation, u.language, u.words::jsonb,
       (select coalesce(array_agg(w), '{{{{}}}}') from jsonb_array_elements_text(u.warnings::jsonb) w)
from unnest($3::int[], $4::text[], $5::text[], $6::float8[], $7::float8[], $8::float8[], $9::smallint[], $10::text[],
            $11::text[], $12::text[])
     as u (number, text, source, confidence, width, height, rotation, language, words, warnings)
"""
ADD_PAGES = INSERT.format(table="pages", owner="document_id")
# Two attempts may have read the same page; the first draft counts.
ADD_DRAFTS = INSERT.format(table="drafts", owner="job_id") + "on conflict do nothing"

# A page that was read again after its draft is there already, and counts.
MOVE = f"""
with moved as (delete from daira.drafts where tenant_id = $1 and job_id = $3 returning {COLUMNS})
insert into daira.pages (tenant_id, document_id, {COLUMNS}) select $1, $2, {COLUMNS} from moved
on conflict do nothing
"""

WORDLESS = [column for column in pages.c if column is not pages.c.words]

WORDS_AT_ONCE = 5_000

NUMBERS_OF_A_WORD = 7
"""Box, confidence, line and block."""


class PostgresPages:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def replace(
        self,
        document_id: DocumentId,
        new: Sequence[Page],
        *,
        drafts_of: JobId | None = None,
        keep_others: bool = False,
    ) -> None:
        # Without the lock, two jobs would each delete the pages that they see, and both insert the same numbers.
        if not await locked_document(self._clamped, document_id):
            raise NotFound(f"there is no document {document_id}")
        gone = self._of(document_id)
        if keep_others:
            drafted = select(drafts.c.number).where(self._drafted(drafts_of))
            gone = and_(gone, pages.c.number.in_([page.number for page in new]) | pages.c.number.in_(drafted))
        await self._clamped.execute(delete(pages).where(gone))
        with known_faults():
            await self._add(ADD_PAGES, document_id, new)
            if drafts_of is not None:
                await self._clamped.call(MOVE, self._tenant_id, document_id, drafts_of)

    async def draft(self, lease: Lease, new: Sequence[Page]) -> bool:
        if not await holds(self._clamped, lease):
            return False
        with known_faults():
            await self._add(ADD_DRAFTS, lease.job_id, new)
        return True

    async def drafted(self, job_id: JobId) -> frozenset[int]:
        rows = await self._clamped.execute(select(drafts.c.number).where(self._drafted(job_id)))
        return frozenset(rows.scalars())

    async def unreadable(self, job_id: JobId) -> int:
        blank = and_(self._drafted(job_id), drafts.c.warnings.contains([WarningCode.PAGE_UNREADABLE]))
        count: int = (await self._clamped.execute(select(func.count()).select_from(drafts).where(blank))).scalar_one()
        return count

    async def all(self, document_id: DocumentId) -> list[Page]:
        statement = select(*WORDLESS).where(self._of(document_id)).order_by(pages.c.number)
        return [_page(row) for row in await self._clamped.execute(statement)]

    async def get(self, document_id: DocumentId, number: int) -> Page | None:
        pages = await self.some(document_id, after=number - 1, limit=1)
        return pages[0] if pages and pages[0].number == number else None

    async def some(self, document_id: DocumentId, *, after: int, limit: int, words: bool = True) -> list[Page]:
        wanted = and_(self._of(document_id), pages.c.number > after)
        statement = select(*(pages.c if words else WORDLESS)).where(wanted).order_by(pages.c.number).limit(limit)
        rows = (await self._clamped.execute(statement)).all()
        if not words:
            return [_page(row) for row in rows]
        return await asyncio.to_thread(lambda: [_with_words(row) for row in rows])

    async def warnings(self, document_id: DocumentId) -> Mapping[int, Sequence[WarningCode]]:
        found = and_(self._of(document_id), func.cardinality(pages.c.warnings) > 0)
        rows = await self._clamped.execute(select(pages.c.number, pages.c.warnings).where(found))
        return {row.number: tuple(known_names(WarningCode, row.warnings)) for row in rows}

    async def _add(self, statement: str, owner: DocumentId | JobId, new: Sequence[Page]) -> None:
        for batch in _batches(new):
            # In a thread: a long document has a million words, and the event loop must go on meanwhile.
            columns = await asyncio.to_thread(_columns, batch)
            await self._clamped.call(statement, self._tenant_id, owner, *columns)

    def _of(self, document_id: DocumentId) -> ColumnElement[bool]:
        return and_(pages.c.tenant_id == self._tenant_id, pages.c.document_id == document_id)

    def _drafted(self, job_id: JobId | None) -> ColumnElement[bool]:
        return and_(drafts.c.tenant_id == self._tenant_id, drafts.c.job_id == job_id)


def _batches(new: Sequence[Page]) -> Iterator[list[Page]]:
    batch: list[Page] = []
    words = 0
    for page in new:
        batch.append(page)
        words += len(page.words)
        if words >= WORDS_AT_ONCE:
            yield batch
            batch, words = [], 0
    if batch:
        yield batch


def _columns(batch: Sequence[Page]) -> list[list[object]]:
    """The columns' values, in the order of INSERT."""
    return [
        [page.number for page in batch],
        [scrub(page.text) for page in batch],
        [page.source for page in batch],
        [page.confidence for page in batch],
        [page.width for page in batch],
        [page.height for page in batch],
        [page.rotation for page in batch],
        [scrub(page.language) for page in batch],
        [json.dumps([_array(word) for word in page.words]) for page in batch],
        [json.dumps(page.warnings) for page in batch],
    ]


def _array(word: Word) -> list[object]:
    return [scrub(word.text), *word.box, word.confidence, word.line, word.block, word.source]


def _page(row: Row[tuple[object, ...]]) -> Page:
    return Page(
        number=row.number,
        text=row.text,
        source=known_name(Source, row.source, otherwise=Source.OCR),
        confidence=row.confidence,
        width=row.width,
        height=row.height,
        rotation=row.rotation,
        language=row.language,
        warnings=tuple(known_names(WarningCode, row.warnings)),
    )


def _with_words(row: Row[tuple[object, ...]]) -> Page:
    page = _page(row)
    words = (_word(stored_list(word), page) for word in stored_list(row.words))
    return replace(page, words=tuple(word for word in words if word is not None))


def _word(stored: list[Any], page: Page) -> Word | None:
    """The word; None for an entry of another form."""
    # Words of earlier versions have neither lines and blocks nor sources, and those of later ones may have more.
    text, *numbers, source = [*stored, 0, 0, page.source][:9]
    if len(numbers) != NUMBERS_OF_A_WORD or not all(isinstance(number, int | float) for number in numbers):
        return None
    x0, y0, x1, y1, confidence, line, block = map(float, numbers)
    return Word(
        text=str(text),
        box=(x0, y0, x1, y1),
        confidence=confidence,
        source=known_name(Source, source, otherwise=page.source),
        line=int(line),
        block=int(block),
    )
