"""The `extract` job: values in the form of the caller's JSON Schema, each with the words that it stands on."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from app.domain.leases import ClaimedJob
from app.domain.llm.citations import Citation, ClaimedSource, cite, search
from app.domain.llm.merging import LocatedValue, MergedValue, leaves
from app.domain.outcomes import Outcome
from app.handlers.llm.ask import source_of
from app.handlers.llm.conversation import Budget, Conversation
from app.handlers.llm.document_text import DocumentText, text_of, warning
from app.handlers.llm.extract_merge import joined, of_a_part, of_the_whole
from app.handlers.llm.map_reduce import DocumentPart, over_parts
from app.handlers.llm.prompts import Prompt
from app.handlers.llm.results import ending_of
from app.handlers.llm.schema_validation import SchemaValidator
from app.ports.database import Database
from app.ports.leases import Reporter
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
    budget: Budget
    kind: str = "extract"

    async def run(self, job: ClaimedJob, reporter: Reporter) -> Outcome:
        return await ending_of(job, self._result(job, reporter))

    async def _result(self, job: ClaimedJob, reporter: Reporter) -> Mapping[str, object]:
        payload = ExtractPayload.model_validate(job.payload)
        schema = payload.json_schema
        text = await text_of(self.database, job)
        asking = await Conversation.open(self.llm, self.database, job.lease, budget=self.budget)
        whole = Prompt(task=TASK, wish=payload.instructions or "", material="", schema=of_the_whole(schema))
        some = Prompt(task=f"{TASK} {OF_A_PART}", wish=whole.wish, material="", schema=of_a_part(schema))
        fits_whole, fits_part = SchemaValidator(whole.schema), SchemaValidator(some.schema)

        async def ask(part: DocumentPart) -> LocatedValue:
            prompt, fitting = (whole, fits_whole) if part.alone else (some, fits_part)
            question, divisible = prompt.of(part.chunk), part.divisible
            answer = await asking.ask(question, fitting, final=part.last, divisible=divisible, long=part.long)
            # Beside the loop: many values are looked for on many pages.
            return await asyncio.to_thread(_found, answer, part, text)

        found = [each for _, each in await over_parts(await asking.planned(some, text.pieces), ask, reporter)]
        values = joined(found, schema) if len(found) > 1 else MergedValue(found[0].data, dict(found[0].citations))
        return _told(values) | {
            "warnings": text.warnings + _warnings(values),
            "coverage": text.coverage(),
            "usage": asking.usage,
        }


def _found(answer: Mapping[str, Any], part: DocumentPart, text: DocumentText) -> LocatedValue:
    """Every value with a citation: where the model says it stands, or else where it is found."""
    pages = text.shown(part.chunk)
    sources = {_pointer(source["pointer"]): source_of(source) for source in reversed(answer["sources"])}
    data = answer.get("data")
    citations = {}
    for at, value in leaves(data):
        source = _nearest(at, sources)
        citations[at] = cite(value, source, pages) if source is not None else search(value, pages)
    return LocatedValue(data, citations)


def _pointer(told: str) -> str:
    """As models write them: `/data/total`, `total`."""
    rooted = told if told.startswith("/") or not told else f"/{told}"
    return rooted.removeprefix("/data") if rooted == "/data" or rooted.startswith("/data/") else rooted


def _nearest(pointer: str, sources: Mapping[str, ClaimedSource]) -> ClaimedSource | None:
    """A row's source is that of its cells, where they have none of their own."""
    while pointer not in sources and pointer:
        pointer = pointer.rpartition("/")[0]
    return sources.get(pointer)


def _told(values: MergedValue) -> dict[str, object]:
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
        detail = "these values were not found on a page: don't take them for facts"
        found.append(warning("unverified", detail, at=unverified))
    if values.alternatives:
        detail = "pages differ here: what others say is in `alternatives`"
        found.append(warning("pages_differ", detail, at=list(values.alternatives)))
    return found
