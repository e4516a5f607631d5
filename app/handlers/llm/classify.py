"""The `classify` job: the caller's labels that fit a document, with the reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from app.domain.leases import ClaimedJob
from app.domain.llm.chunks import Chunk, page_ranges
from app.domain.llm.citations import Citation
from app.domain.outcomes import Outcome
from app.handlers.llm.ask import QUOTES_SCHEMA, are_verified, citations_of, quote_warnings
from app.handlers.llm.conversation import Conversation, LlmBudget
from app.handlers.llm.document_text import text_of
from app.handlers.llm.map_reduce import DocumentPart, map_parts
from app.handlers.llm.prompts import Prompt
from app.handlers.llm.results import outcome_of
from app.handlers.llm.schema_validation import SchemaValidator
from app.ports.database import Database
from app.ports.leases import ProgressReporter
from app.ports.llm import Llm

TASK = (
    "Choose the label that the document has, or none if none is right; reason says why in a sentence, and quotes are"
    " the places that show it."
)
SEVERAL = "There may be several labels: choose each that the document has."
OF_FINDINGS = (
    "A document was looked at part by part. From what was found in each, choose the label that the whole document has,"
    " or none if none is right; reason says why in a sentence, and quotes are empty."
)


class ClassifyPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    labels: list[str]
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class LabelFinding:
    labels: list[str]
    reason: str
    citations: list[Citation]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyHandler:
    database: Database
    llm: Llm
    budget: LlmBudget
    kind: str = "classify"

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        return await outcome_of(job, self._result(job, reporter))

    async def _result(self, job: ClaimedJob, reporter: ProgressReporter) -> Mapping[str, object]:
        payload = ClassifyPayload.model_validate(job.payload)
        text = await text_of(self.database, job)
        conversation = await Conversation.open(
            self.llm, self.database, job.lease, budget=self.budget, reporter=reporter
        )
        prompt = _prompt(payload)
        validator = SchemaValidator(prompt.schema)

        async def ask(part: DocumentPart) -> LabelFinding:
            final = part.last and (part.is_whole or payload.multiple)
            question = prompt.of(part.chunk)
            answer = await conversation.ask(question, validator, final=final, divisible=part.divisible, long=part.long)
            return LabelFinding(answer["labels"], answer["reason"], citations_of(answer["quotes"], part.chunk, text))

        findings = await map_parts(await conversation.planned(prompt, text.pieces), ask, reporter)
        labels, reason = await _combined_labels(findings, conversation, payload)
        citations = [each for _, finding in findings if _agrees(finding, labels) for each in finding.citations]
        return {
            "labels": labels,
            "reason": reason,
            "verified": are_verified(citations),
            "citations": [citation.to_json() for citation in citations],
            "warnings": text.warnings + quote_warnings(citations),
            "coverage": text.coverage(),
            "usage": conversation.usage,
        }


async def _combined_labels(
    findings: Sequence[tuple[Chunk, LabelFinding]], conversation: Conversation, payload: ClassifyPayload
) -> tuple[list[str], str]:
    """Return all labels found, or the single one. If parts differ about a single label, the model is asked again."""
    found = {label for _, finding in findings for label in finding.labels}
    labels = [label for label in payload.labels if label in found]
    reasons = [finding.reason for _, finding in findings if _agrees(finding, labels)]
    if payload.multiple or len(labels) <= 1:
        return labels, " ".join(reasons)
    notes = [f"Pages {page_ranges(chunk.pages)}: {finding.labels}, {finding.reason}" for chunk, finding in findings]
    prompt = Prompt(task=OF_FINDINGS, wish="", material="\n".join(notes), schema=_schema(labels, most=1))
    answer = await conversation.ask(prompt, SchemaValidator(prompt.schema), final=True)
    return list(answer["labels"]), str(answer["reason"])


def _agrees(finding: LabelFinding, labels: Sequence[str]) -> bool:
    """Return True if the finding supports one of the labels, or, without labels, if it found none."""
    return bool(set(labels) & set(finding.labels)) if labels else not finding.labels


def _prompt(payload: ClassifyPayload) -> Prompt:
    task = f"{TASK} {SEVERAL}" if payload.multiple else TASK
    most = len(payload.labels) if payload.multiple else 1
    wish = "The labels:\n" + "\n".join(payload.labels)
    return Prompt(task=task, wish=wish, material="", schema=_schema(payload.labels, most=most))


def _schema(labels: Sequence[str], *, most: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "labels": {"type": "array", "items": {"enum": list(labels)}, "maxItems": most, "uniqueItems": True},
            "reason": {"type": "string"},
            "quotes": QUOTES_SCHEMA,
        },
        "required": ["labels", "reason", "quotes"],
        "additionalProperties": False,
    }
