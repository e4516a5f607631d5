"""Pages, with their words as compact arrays: [text, x0, y0, x1, y1, confidence]."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Row, and_, delete, insert, select

from app.adapters.postgres.clamped import Clamped
from app.adapters.postgres.faults import known_faults
from app.adapters.postgres.tables import pages
from app.domain.ids import DocumentId
from app.domain.pages import Page, Source, Word


class PostgresPages:
    def __init__(self, clamped: Clamped) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def replace(self, document_id: DocumentId, new: Sequence[Page]) -> None:
        await self._clamped.execute(delete(pages).where(self._of(document_id)))
        if new:
            with known_faults():
                await self._clamped.execute(insert(pages), [self._row(document_id, page) for page in new])

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

    def _row(self, document_id: DocumentId, page: Page) -> dict[str, object]:
        return {
            "tenant_id": self._tenant_id,
            "document_id": document_id,
            "number": page.number,
            "text": page.text,
            "source": page.source,
            "confidence": page.confidence,
            "width": page.width,
            "height": page.height,
            "rotation": page.rotation,
            "language": page.language,
            "words": [[word.text, *word.box, word.confidence] for word in page.words],
        }


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
