"""The `ask` job: a question answered from a document, with the places that say so, or found to be not in it."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from app.domain.jobs import Progress
from app.domain.leases import ClaimedJob
from app.domain.llm.bm25 import ranked
from app.domain.llm.chunks import Chunk, chunked
from app.domain.llm.citations import Citation, ClaimedSource, cite
from app.domain.outcomes import Outcome
from app.handlers.llm.conversation import Budget, Conversation
from app.handlers.llm.document_text import DocumentText, text_of, warning
from app.handlers.llm.map_reduce import DocumentPart, over_parts
from app.handlers.llm.prompts import Prompt
from app.handlers.llm.results import ending_of
from app.handlers.llm.schema_validation import SchemaValidator
from app.ports.database import Database
from app.ports.leases import Reporter
from app.ports.llm import Llm

QUOTES: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"page": {"type": "integer"}, "quote": {"type": "string"}},
        "required": ["page", "quote"],
        "additionalProperties": False,
    },
}


def source_of(told: Mapping[str, Any]) -> ClaimedSource:
    return ClaimedSource(page=int(told["page"]), quote=told["quote"])


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


ROUNDS = 4
"""Helpings of pages that are read for one question, the most telling first; what is left then is told."""

TASK = (
    "Answer the question that is the wish, from the pages alone. If they answer it: found is true, answer tells it, and"
    " quotes are the places that say so. If they don't: found is false, answer is null, and quotes are empty."
)
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"found": {"type": "boolean"}, "answer": {"type": ["string", "null"]}, "quotes": QUOTES},
    "required": ["found", "answer", "quotes"],
    "additionalProperties": False,
}
CHECKED = {
    **SCHEMA,
    "if": {"properties": {"found": {"const": True}}},
    "then": {"properties": {"answer": {"type": "string", "minLength": 1}, "quotes": {"minItems": 1}}},
}
"""What few servers can enforce is checked here alone."""


class AskPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskHandler:
    database: Database
    llm: Llm
    budget: Budget
    kind: str = "ask"

    async def run(self, job: ClaimedJob, reporter: Reporter) -> Outcome:
        return await ending_of(job, self._result(job, reporter))

    async def _result(self, job: ClaimedJob, reporter: Reporter) -> Mapping[str, object]:
        question = AskPayload.model_validate(job.payload).question
        text = await text_of(self.database, job)
        asking = await Conversation.open(self.llm, self.database, job.lease, budget=self.budget)
        prompt = Prompt(task=TASK, wish=question, material="", schema=SCHEMA)
        helpings = await asyncio.to_thread(_helpings, text, question, room=asking.room(prompt))
        read: set[int] = set()
        found = None
        while found is None and helpings:
            helping = helpings.pop(0)
            found = await _found(helping, text, asking, prompt, last=not helpings)
            read |= set(helping.pages)
            reporter.report(Progress(done=len(read), total=len(text.pieces), unit="page"))
        return {
            "answer": found.answer if found else None,
            "found": found is not None,
            "verified": found is not None and verified(found.citations),
            "citations": [citation.to_json() for citation in found.citations] if found else [],
            "warnings": [*text.warnings, *(doubts(found.citations) if found else ()), *_unread(text, read)],
            "coverage": text.coverage(read),
            "usage": asking.usage,
        }


@dataclass(frozen=True, slots=True)
class QuotedAnswer:
    answer: str
    citations: list[Citation]


def _helpings(text: DocumentText, question: str, *, room: int) -> list[Chunk]:
    """All pages in one, or else ROUNDS of the most telling first; each in the order of its pages."""
    whole = chunked(text.pieces, room=room)
    if len(whole) == 1:
        return whole
    pieces = {piece.page: piece for piece in text.pieces}
    order = ranked(question, {number: piece.text for number, piece in pieces.items()})
    chunks = chunked([pieces[number] for number in order], room=room)
    return [Chunk(tuple(sorted(chunk.pieces, key=lambda piece: piece.page))) for chunk in chunks[:ROUNDS]]


async def _found(
    helping: Chunk, text: DocumentText, asking: Conversation, prompt: Prompt, *, last: bool
) -> QuotedAnswer | None:
    """The first answer, where the pages had to be shown in several parts."""
    fitting = SchemaValidator(CHECKED)

    async def ask(part: DocumentPart) -> Mapping[str, Any]:
        final = last and part.last
        answer: Mapping[str, Any] = await asking.ask(prompt.of(part.chunk), fitting, final=final, long=part.long)
        return answer

    for chunk, answer in await over_parts([helping], ask):
        if answer["found"]:
            return QuotedAnswer(str(answer["answer"]), cited(answer["quotes"], chunk, text))
    return None


def _unread(text: DocumentText, read: Collection[int]) -> list[dict[str, object]]:
    left = sorted({piece.page for piece in text.pieces} - set(read))
    detail = "these pages say less of the question than those that were read, and were not read themselves"
    return [warning("pages_not_read", detail, pages=left)] if left else []
