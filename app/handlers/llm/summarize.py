"""The `summarize` job: a short summary of a document. For a long document, notes on its parts are summed up."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from app.domain.leases import ClaimedJob
from app.domain.llm.chunks import Chunk, page_ranges
from app.domain.llm.token_estimate import estimate_tokens
from app.domain.outcomes import Outcome
from app.handlers.llm.conversation import Conversation, LlmBudget
from app.handlers.llm.document_text import text_of, warning
from app.handlers.llm.map_reduce import DocumentPart, map_parts
from app.handlers.llm.prompts import Prompt
from app.handlers.llm.results import outcome_of
from app.handlers.llm.schema_validation import SchemaValidator
from app.ports.database import Database
from app.ports.leases import ProgressReporter
from app.ports.llm import Llm

SCHEMA = {
    "type": "object",
    "properties": {"summary": {"type": "string", "minLength": 1}},
    "required": ["summary"],
    "additionalProperties": False,
}
TASK = "Sum up the document that is given as material, for somebody who has not read it."
OF_NOTES = "Notes on a document, part by part, are given as material. Make of them one summary of the document."
NOTES = "Note down what the given part of a document says: its facts, figures, dates, names and decisions. Be brief."
BE_BRIEF = 200
"""Words of a summary without a requested length, and of each part's notes."""

LENIENCE = 1.2
"""The factor by which a summary may exceed its length, because models count words badly."""


class SummarizePayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    max_words: int | None = None
    language: str | None = None
    """None means the document's own language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeHandler:
    database: Database
    llm: Llm
    budget: LlmBudget
    kind: str = "summarize"

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        return await outcome_of(job, self._result(job, reporter))

    async def _result(self, job: ClaimedJob, reporter: ProgressReporter) -> Mapping[str, object]:
        payload = SummarizePayload.model_validate(job.payload)
        text = await text_of(self.database, job)
        conversation = await Conversation.open(
            self.llm, self.database, job.lease, budget=self.budget, reporter=reporter
        )
        whole = Prompt(task=TASK, wish=_wish(payload), material="", schema=SCHEMA)
        notes = Prompt(
            task=NOTES, wish=f"At most {BE_BRIEF} words. {_in_language(payload.language)}", material="", schema=SCHEMA
        )
        validator = SchemaValidator(SCHEMA)

        async def ask(part: DocumentPart) -> str:
            prompt = (whole if part.is_whole else notes).of(part.chunk)
            divisible = part.divisible
            answer = await conversation.ask(prompt, validator, final=part.is_whole, divisible=divisible, long=part.long)
            return str(answer["summary"])

        noted = await map_parts(await conversation.planned(whole, text.pieces), ask, reporter)
        if len(noted) == 1:
            summary = noted[0][1]
        else:
            summary = await _reduced(noted, conversation, whole, validator)
        return {
            "summary": summary,
            "warnings": text.warnings + _too_long(summary, payload.max_words),
            "coverage": text.coverage(),
            "usage": conversation.usage,
        }


async def _reduced(
    noted: list[tuple[Chunk, str]], conversation: Conversation, whole: Prompt, validator: SchemaValidator
) -> str:
    """Sum up groups of notes, again and again, until a single summary is left."""
    prompt = Prompt(task=OF_NOTES, wish=whole.wish, material="", schema=SCHEMA)
    notes = [f"Pages {page_ranges(chunk.pages)}: {note}" for chunk, note in noted]
    while True:
        groups = _grouped(notes, room=conversation.room(prompt))
        answers = [
            await conversation.ask(prompt.of("\n\n".join(group)), validator, final=len(groups) == 1) for group in groups
        ]
        notes = [str(answer["summary"]) for answer in answers]
        if len(notes) == 1:
            return notes[0]


def _grouped(notes: list[str], *, room: int) -> list[list[str]]:
    """Group notes, at least two in each group but the last, so that the summing up ends."""
    groups: list[list[str]] = [[]]
    for note in notes:
        if len(groups[-1]) > 1 and sum(map(estimate_tokens, groups[-1])) + estimate_tokens(note) > room:
            groups.append([])
        groups[-1].append(note)
    return groups


def _wish(payload: SummarizePayload) -> str:
    return f"At most {payload.max_words or BE_BRIEF} words. {_in_language(payload.language)}"


def _in_language(language: str | None) -> str:
    return f"Write in this language: {language}." if language else "Write in the language of the material."


def _too_long(summary: str, max_words: int | None) -> list[dict[str, object]]:
    """Warn about a long summary. It is not cut, because half a sentence less may reverse its meaning."""
    words = len(summary.split())
    if max_words is None or words <= max_words * LENIENCE:
        return []
    return [warning("longer_than_asked", f"the summary has {words} words, {max_words} were asked for")]
