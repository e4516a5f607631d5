"""The `extract` job: values in the form of the caller's JSON Schema, each with a citation."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from app.domain.leases import ClaimedJob
from app.domain.llm.citations import Citation, QuotedSource, cite, search
from app.domain.llm.merging import LocatedValue, MergedValue, leaves
from app.domain.outcomes import Outcome
from app.handlers.llm.ask import quoted_source
from app.handlers.llm.conversation import Conversation, LlmBudget
from app.handlers.llm.document_text import DocumentText, text_of, warning
from app.handlers.llm.extract_merge import joined_answer, part_schema, whole_schema
from app.handlers.llm.map_reduce import DocumentPart, map_parts
from app.handlers.llm.prompts import Prompt
from app.handlers.llm.results import outcome_of
from app.handlers.llm.schema_validation import SchemaValidator
from app.ports.database import Database
from app.ports.leases import ProgressReporter
from app.ports.llm import Llm

TASK = (
    "Take the values that the schema's `data` asks for from the pages. What the pages don't state is left out, or null"
    " where the schema has it so; nothing is guessed. Lists are complete. In `sources`, list for each value its JSON"
    " pointer within data, such as /items/0/price, the number of its page, and the words that it stands in."
)
OF_A_PART = "The pages are a part of a longer document: take what stands on them, and leave out everything else."


class ExtractPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    json_schema: dict[str, Any] = Field(alias="schema")
    instructions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractHandler:
    database: Database
    llm: Llm
    budget: LlmBudget
    kind: str = "extract"

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        return await outcome_of(job, self._result(job, reporter))

    async def _result(self, job: ClaimedJob, reporter: ProgressReporter) -> Mapping[str, object]:
        payload = ExtractPayload.model_validate(job.payload)
        schema = payload.json_schema
        text = await text_of(self.database, job)
        conversation = await Conversation.open(
            self.llm, self.database, job.lease, budget=self.budget, reporter=reporter
        )
        whole = Prompt(task=TASK, wish=payload.instructions or "", material="", schema=whole_schema(schema))
        some = Prompt(task=f"{TASK} {OF_A_PART}", wish=whole.wish, material="", schema=part_schema(schema))
        fits_whole, fits_part = SchemaValidator(whole.schema), SchemaValidator(some.schema)

        async def ask(part: DocumentPart) -> LocatedValue:
            prompt, validator = (whole, fits_whole) if part.is_whole else (some, fits_part)
            question, divisible = prompt.of(part.chunk), part.divisible
            answer = await conversation.ask(question, validator, final=part.last, divisible=divisible, long=part.long)
            # In a thread, because many values are searched for on many pages.
            return await asyncio.to_thread(_found, answer, part, text)

        found = [each for _, each in await map_parts(await conversation.planned(some, text.pieces), ask, reporter)]
        values = (
            joined_answer(found, schema) if len(found) > 1 else MergedValue(found[0].data, dict(found[0].citations))
        )
        return _to_json(values) | {
            "warnings": text.warnings + _warnings(values),
            "coverage": text.coverage(),
            "usage": conversation.usage,
        }


def _found(answer: Mapping[str, Any], part: DocumentPart, text: DocumentText) -> LocatedValue:
    """Cite every value at the place that the model names, or else at the place that a search finds."""
    pages = text.shown(part.chunk)
    sources = {_pointer(source["pointer"]): quoted_source(source) for source in reversed(answer["sources"])}
    data = answer.get("data")
    citations = {}
    for at, value in leaves(data):
        source = _nearest(at, sources)
        citations[at] = cite(value, source, pages) if source is not None else search(value, pages)
    return LocatedValue(data, citations)


def _pointer(written: str) -> str:
    """Normalise a pointer from the ways in which models write it, such as `/data/total` and `total`."""
    rooted = written if written.startswith("/") or not written else f"/{written}"
    return rooted.removeprefix("/data") if rooted == "/data" or rooted.startswith("/data/") else rooted


def _nearest(pointer: str, sources: Mapping[str, QuotedSource]) -> QuotedSource | None:
    """Return the value's own source, or else that of the nearest enclosing object or list."""
    while pointer not in sources and pointer:
        pointer = pointer.rpartition("/")[0]
    return sources.get(pointer)


def _to_json(values: MergedValue) -> dict[str, object]:
    unverified = _unverified(values.citations)
    return {
        "data": values.data,
        "verified": bool(values.citations) and not unverified,
        "unverified": unverified,
        "citations": {at: citation.to_json() for at, citation in values.citations.items()},
        "alternatives": values.alternatives,
    }


def _unverified(citations: Mapping[str, Citation]) -> list[str]:
    return [at for at, citation in citations.items() if not citation.verified]


def _warnings(values: MergedValue) -> list[dict[str, object]]:
    found = []
    if unverified := _unverified(values.citations):
        detail = "these values were not found on a page: check them"
        found.append(warning("unverified", detail, at=unverified))
    if values.alternatives:
        detail = "pages differ here: the other values are in `alternatives`"
        found.append(warning("pages_differ", detail, at=list(values.alternatives)))
    return found
