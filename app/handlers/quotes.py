"""Quotes that a model gives as its reasons, looked for where it says they stand."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.domain.chunks import Chunk
from app.domain.citations import Citation, Source, cite
from app.handlers.document_text import DocumentText, warning

QUOTES: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"page": {"type": "integer"}, "quote": {"type": "string"}},
        "required": ["page", "quote"],
        "additionalProperties": False,
    },
}


def source_of(told: Mapping[str, Any]) -> Source:
    return Source(page=int(told["page"]), quote=told["quote"])


def cited(quotes: Iterable[Mapping[str, Any]], shown: Chunk, text: DocumentText) -> list[Citation]:
    pages = text.shown(shown)
    sources = [source_of(quote) for quote in quotes]
    return [cite(source.quote, source, pages) for source in sources]


def verified(citations: Iterable[Citation]) -> bool:
    """Each is found where it is said to stand, and there is at least one."""
    found = [citation.verified for citation in citations]
    return bool(found) and all(found)


def doubts(citations: Iterable[Citation]) -> list[dict[str, object]]:
    if verified(list(citations)):
        return []
    detail = "not every quote is on the page that it is said to be on: don't take the answer for a fact"
    return [warning("unverified", detail)]
