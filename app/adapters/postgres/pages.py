"""Pages, with their words as compact arrays: [text, x0, y0, x1, y1, confidence]."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Row, and_, delete, select

from app.adapters.postgres.clamped import Clamped
from app.adapters.postgres.faults import known_faults
from app.adapters.postgres.tables import pages
from app.domain.ids import DocumentId
from app.domain.pages import Page, Source, Word
from app.domain.text import scrub

INSERT = """
insert into daira.pages
    (tenant_id, document_id, number, text, source, confidence, width, height, rotation, language, words)
select $1, $2, u.* from unnest($3::int[], $4::text[], $5::text[], $6::float8[], $7::float8[], $8::float8[],
                               $9::smallint[], $10::text[], $11::text[]::jsonb[]) as u
"""

WORDS_AT_ONCE = 5_000


class PostgresPages:
    def __init__(self, clamped: Clamped) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def replace(self, document_id: DocumentId, new: Sequence[Page]) -> None:
        await self._clamped.execute(delete(pages).where(self._of(document_id)))
        for batch in _batches(new):
            # Beside the loop: a long document has a million words, and others wait for an answer meanwhile.
            columns = await asyncio.to_thread(_columns, batch)
            with known_faults():
                await self._clamped.call(INSERT, self._tenant_id, document_id, *columns)

    async def all(self, document_id: DocumentId) -> list[Page]:
        columns = [column for column in pages.c if column is not pages.c.words]
        statement = select(*columns).where(self._of(document_id)).order_by(pages.c.number)
        return [_page(row) for row in await self._clamped.execute(statement)]

    async def get(self, document_id: DocumentId, number: int) -> Page | None:
        statement = select(pages).where(self._of(document_id), pages.c.number == number)
        row = (await self._clamped.execute(statement)).one_or_none()
        return replace(_page(row), words=tuple(_word(word) for word in row.words)) if row else None

    def _of(self, document_id: DocumentId) -> ColumnElement[bool]:
        return and_(pages.c.tenant_id == self._tenant_id, pages.c.document_id == document_id)


def _batches(new: Sequence[Page]) -> Iterator[list[Page]]:
    batch: list[Page] = []
    for page in new:
        batch.append(page)
        if sum(len(each.words) for each in batch) >= WORDS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _columns(batch: Sequence[Page]) -> list[list[object]]:
    """In the order of INSERT."""
    return [
        [page.number for page in batch],
        [scrub(page.text) for page in batch],
        [page.source for page in batch],
        [page.confidence for page in batch],
        [page.width for page in batch],
        [page.height for page in batch],
        [page.rotation for page in batch],
        [scrub(page.language) for page in batch],
        [json.dumps([[scrub(word.text), *word.box, word.confidence] for word in page.words]) for page in batch],
    ]


def _page(row: Row[tuple[object, ...]]) -> Page:
    return Page(
        number=row.number,
        text=row.text,
        source=Source(row.source),
        confidence=row.confidence,
        width=row.width,
        height=row.height,
        rotation=row.rotation,
        language=row.language,
    )


def _word(stored: list[object]) -> Word:
    text, x0, y0, x1, y1, confidence = stored
    return Word(
        text=str(text), box=(_number(x0), _number(y0), _number(x1), _number(y1)), confidence=_number(confidence)
    )


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
