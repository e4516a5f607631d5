"""The `ask` job: answers a question from a document with citations, or reports that the document has no answer.

The quotes that a model gives are searched for on the pages that it names.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from app.domain.jobs import Progress
from app.domain.leases import ClaimedJob
from app.domain.llm.bm25 import rank
from app.domain.llm.chunks import Chunk, chunks_of
from app.domain.llm.citations import Citation, QuotedSource, cite
from app.domain.outcomes import Outcome
from app.handlers.llm.conversation import Conversation, LlmBudget
from app.handlers.llm.document_text import DocumentText, text_of, warning
from app.handlers.llm.map_reduce import DocumentPart, map_parts
from app.handlers.llm.prompts import Prompt
from app.handlers.llm.results import outcome_of
from app.handlers.llm.schema_validation import SchemaValidator
from app.ports.database import Database
from app.ports.leases import ProgressReporter
from app.ports.llm import Llm

QUOTES_SCHEMA: Mapping[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"page": {"type": "integer"}, "quote": {"type": "string"}},
        "required": ["page", "quote"],
        "additionalProperties": False,
    },
}


def quoted_source(quote: Mapping[str, Any]) -> QuotedSource:
    return QuotedSource(page=int(quote["page"]), quote=quote["quote"])


def citations_of(quotes: Iterable[Mapping[str, Any]], shown: Chunk, text: DocumentText) -> list[Citation]:
    pages = text.shown(shown)
    sources = [quoted_source(quote) for quote in quotes]
    return [cite(source.quote, source, pages) for source in sources]


def are_verified(citations: Iterable[Citation]) -> bool:
    """Return True if there is at least one citation and each one is on the page that it names."""
    found = [citation.verified for citation in citations]
    return bool(found) and all(found)


def quote_warnings(citations: Iterable[Citation]) -> list[dict[str, object]]:
    if are_verified(list(citations)):
        return []
    detail = "a quote is not on the page that the model names: check the answer"
    return [warning("unverified", detail)]


ROUNDS = 4
"""Batches of pages that are read for one question, the most relevant pages first.
The result lists the pages not read."""

TASK = (
    "Answer the question that is the wish, from the pages alone. If they answer it: found is true, answer tells it, and"
    " quotes are the places that say so. If they don't: found is false, answer is null, and quotes are empty."
)
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"found": {"type": "boolean"}, "answer": {"type": ["string", "null"]}, "quotes": QUOTES_SCHEMA},
    "required": ["found", "answer", "quotes"],
    "additionalProperties": False,
}
STRICT_SCHEMA = {
    **SCHEMA,
    "if": {"properties": {"found": {"const": True}}},
    "then": {"properties": {"answer": {"type": "string", "minLength": 1}, "quotes": {"minItems": 1}}},
}
"""The schema for checking an answer. Few servers can enforce its conditions, so they are not sent."""


class AskPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskHandler:
    database: Database
    llm: Llm
    budget: LlmBudget
    kind: str = "ask"

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        return await outcome_of(job, self._result(job, reporter))

    async def _result(self, job: ClaimedJob, reporter: ProgressReporter) -> Mapping[str, object]:
        question = AskPayload.model_validate(job.payload).question
        text = await text_of(self.database, job)
        conversation = await Conversation.open(
            self.llm, self.database, job.lease, budget=self.budget, reporter=reporter
        )
        prompt = Prompt(task=TASK, wish=question, material="", schema=SCHEMA)
        batches = await asyncio.to_thread(_batches, text, question, room=conversation.room(prompt))
        read: set[int] = set()
        found = None
        while found is None and batches:
            batch = batches.pop(0)
            found = await _found(batch, text, conversation, prompt, last=not batches)
            read |= set(batch.pages)
            reporter.report(Progress(done=len(read), total=len(text.pieces), unit="page"))
        return {
            "answer": found.answer if found else None,
            "found": found is not None,
            "verified": found is not None and are_verified(found.citations),
            "citations": [citation.to_json() for citation in found.citations] if found else [],
            "warnings": [*text.warnings, *(quote_warnings(found.citations) if found else ()), *_unread(text, read)],
            "coverage": text.coverage(read),
            "usage": conversation.usage,
        }


@dataclass(frozen=True, slots=True)
class QuotedAnswer:
    answer: str
    citations: list[Citation]


def _batches(text: DocumentText, question: str, *, room: int) -> list[Chunk]:
    """Return all pages in one batch if they fit, or else the ROUNDS most relevant batches.

    Pages are in order within a batch.
    """
    whole = chunks_of(text.pieces, room=room)
    if len(whole) == 1:
        return whole
    pieces = {piece.page: piece for piece in text.pieces}
    order = rank(question, {number: piece.text for number, piece in pieces.items()})
    chunks = chunks_of([pieces[number] for number in order], room=room)
    return [Chunk(tuple(sorted(chunk.pieces, key=lambda piece: piece.page))) for chunk in chunks[:ROUNDS]]


async def _found(
    batch: Chunk, text: DocumentText, conversation: Conversation, prompt: Prompt, *, last: bool
) -> QuotedAnswer | None:
    """Return the first answer, even where the batch had to be shown in several parts; None where no part has one."""
    validator = SchemaValidator(STRICT_SCHEMA)

    async def ask(part: DocumentPart) -> Mapping[str, Any]:
        final = last and part.last
        answer: Mapping[str, Any] = await conversation.ask(
            prompt.of(part.chunk), validator, final=final, long=part.long
        )
        return answer

    for chunk, answer in await map_parts([batch], ask):
        if answer["found"]:
            return QuotedAnswer(str(answer["answer"]), citations_of(answer["quotes"], chunk, text))
    return None


def _unread(text: DocumentText, read: Collection[int]) -> list[dict[str, object]]:
    left = sorted({piece.page for piece in text.pieces} - set(read))
    detail = "these pages were not read, because they match the question less than those that were"
    return [warning("pages_not_read", detail, pages=left)] if left else []
