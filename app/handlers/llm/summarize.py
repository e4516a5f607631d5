"""The `summarize` job: what a document says, in few words. Of a long one, notes on its parts are summed up."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from app.domain.leases import ClaimedJob
from app.domain.llm.chunks import Chunk, ranges
from app.domain.llm.token_estimate import estimate
from app.domain.outcomes import Outcome
from app.handlers.llm.conversation import Budget, Conversation
from app.handlers.llm.document_text import text_of, warning
from app.handlers.llm.map_reduce import DocumentPart, over_parts
from app.handlers.llm.prompts import Prompt
from app.handlers.llm.results import ending_of
from app.handlers.llm.schema_validation import SchemaValidator
from app.ports.database import Database
from app.ports.leases import Reporter
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
"""Words of a summary where nothing is said, and of each part's notes."""

LENIENCE = 1.2
"""Models count words badly."""


class SummarizePayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    max_words: int | None = None
    language: str | None = None
    """None: the document's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeHandler:
    database: Database
    llm: Llm
    budget: Budget
    kind: str = "summarize"

    async def run(self, job: ClaimedJob, reporter: Reporter) -> Outcome:
        return await ending_of(job, self._result(job, reporter))

    async def _result(self, job: ClaimedJob, reporter: Reporter) -> Mapping[str, object]:
        payload = SummarizePayload.model_validate(job.payload)
        text = await text_of(self.database, job)
        asking = await Conversation.open(self.llm, self.database, job.lease, budget=self.budget)
        whole = Prompt(task=TASK, wish=_wish(payload), material="", schema=SCHEMA)
        notes = Prompt(
            task=NOTES, wish=f"At most {BE_BRIEF} words. {_in(payload.language)}", material="", schema=SCHEMA
        )
        fitting = SchemaValidator(SCHEMA)

        async def ask(part: DocumentPart) -> str:
            prompt = (whole if part.alone else notes).of(part.chunk)
            divisible = part.divisible
            answer = await asking.ask(prompt, fitting, final=part.alone, divisible=divisible, long=part.long)
            return str(answer["summary"])

        noted = await over_parts(await asking.planned(whole, text.pieces), ask, reporter)
        if len(noted) == 1:
            summary = noted[0][1]
        else:
            summary = await _summed_up(noted, asking, whole, fitting)
        return {
            "summary": summary,
            "warnings": text.warnings + _too_long(summary, payload.max_words),
            "coverage": text.coverage(),
            "usage": asking.usage,
        }


async def _summed_up(
    noted: list[tuple[Chunk, str]], asking: Conversation, whole: Prompt, fitting: SchemaValidator
) -> str:
    """Again and again, until one is left."""
    prompt = Prompt(task=OF_NOTES, wish=whole.wish, material="", schema=SCHEMA)
    notes = [f"Pages {ranges(chunk.pages)}: {note}" for chunk, note in noted]
    while True:
        groups = _grouped(notes, room=asking.room(prompt))
        answers = [await asking.ask(prompt.of("\n\n".join(group)), fitting, final=len(groups) == 1) for group in groups]
        notes = [str(answer["summary"]) for answer in answers]
        if len(notes) == 1:
            return notes[0]


def _grouped(notes: list[str], *, room: int) -> list[list[str]]:
    """Two at least in each group but the last, so that it comes to an end."""
    groups: list[list[str]] = [[]]
    for note in notes:
        if len(groups[-1]) > 1 and sum(map(estimate, groups[-1])) + estimate(note) > room:
            groups.append([])
        groups[-1].append(note)
    return groups


def _wish(payload: SummarizePayload) -> str:
    return f"At most {payload.max_words or BE_BRIEF} words. {_in(payload.language)}"


def _in(language: str | None) -> str:
    return f"Write in this language: {language}." if language else "Write in the language of the material."


def _too_long(summary: str, max_words: int | None) -> list[dict[str, object]]:
    """Told and not cut: half a sentence less may turn what is said around."""
    words = len(summary.split())
    if max_words is None or words <= max_words * LENIENCE:
        return []
    return [warning("longer_than_asked", f"the summary has {words} words, {max_words} were asked for")]
