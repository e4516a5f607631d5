"""The parameters that an endpoint understands: refused ones are left out of later requests, down to the prompt only."""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import structlog

from app.adapters.llm.failures import FORMS, OF_THE_SCHEMA, TOO_LONG, StatusFault
from app.domain.text import scrub, scrub_json
from app.ports.llm import Question

log = structlog.get_logger()

KEPT = 3600.0
"""Seconds for which these parameters are used before richer ones are tried again, because a server may be updated."""

STATUSES = frozenset({400, 422, 500, 501})
"""Statuses of a server that does not understand a parameter. 500: llama.cpp, for a schema that it can't convert to a
grammar."""

IN_PROSE = "Answer with one JSON value that fits the following JSON Schema, and with nothing else.\nJSON Schema: "


class AnswerFormat(IntEnum):
    """The way in which an answer's form is requested, from the least to the most binding."""

    PROMPT = 0
    JSON = 1
    SCHEMA = 2
    STRICT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    form: AnswerFormat = AnswerFormat.STRICT
    counts: bool = True
    """True if `stream_options` is understood."""
    limit: str = "max_tokens"
    """The parameter for the longest answer. OpenAI's reasoning models want `max_completion_tokens`; most other servers
    know only `max_tokens`."""
    cool: bool = True
    """True if `temperature` is understood."""

    def request(self, question: Question, *, model: str) -> bytes:
        body: dict[str, object] = {
            "model": model,
            "messages": [
                {"role": "system", "content": instructions(question)},
                {"role": "user", "content": question.user},
            ],
            "stream": True,
            self.limit: question.max_output_tokens,
        }
        if self.cool:
            body["temperature"] = 0
        if self.counts:
            body["stream_options"] = {"include_usage": True}
        if question.schema is not None and self.form:
            body["response_format"] = self._response_format(question.schema)
        return json.dumps(scrub_json(body), ensure_ascii=False).encode()

    def _response_format(self, schema: Mapping[str, object]) -> dict[str, object]:
        if self.form is AnswerFormat.JSON:
            return {"type": "json_object"}
        strict = self.form is AnswerFormat.STRICT and is_strict(schema)
        return {"type": "json_schema", "json_schema": {"name": "answer", "strict": strict, "schema": schema}}

    def simpler(self, refusal: StatusFault, schema: Mapping[str, object] | None) -> "Capabilities | None":
        """Return capabilities without the one that the refusal names; None when it names none to leave out."""
        words = refusal.words
        if refusal.status not in STATUSES or TOO_LONG.search(words):
            return None
        if self.counts and re.search("stream_options|include_usage", words):
            return replace(self, counts=False)
        if self.limit == "max_tokens" and "max_completion_tokens" in words:
            return replace(self, limit="max_completion_tokens")
        if self.cool and "temperature" in words:
            return replace(self, cool=False)
        if schema is not None and self.form and FORMS.search(words):
            # If strict mode was not requested, requesting without it would repeat the same request.
            step = 1 if self.form is not AnswerFormat.STRICT or is_strict(schema) else 2
            return replace(self, form=AnswerFormat(self.form - step))
        return None


def instructions(question: Question) -> str:
    """The system prompt, always with the schema in words.

    A grammar binds a model but does not explain what is wanted.
    """
    if question.schema is None:
        return scrub(question.system)
    return scrub(f"{question.system}\n\n{IN_PROSE}{json.dumps(scrub_json(question.schema), ensure_ascii=False)}")


def is_strict(schema: object) -> bool:
    """Return True if OpenAI's strict mode accepts the schema: each object is closed and requires all its properties."""
    match schema:
        case Mapping():
            here = "properties" not in schema or (
                schema.get("additionalProperties") is False
                and isinstance(schema["properties"], Mapping)
                and set(schema["properties"]) == set(_names(schema.get("required")))
            )
            return here and all(is_strict(part) for part in schema.values())
        case list():
            return all(is_strict(part) for part in schema)
        case _:
            return True


def _names(required: object) -> list[str]:
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


class DialectCache:
    """Remembers the capabilities that the endpoint was found to have."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found = Capabilities()
        self._found_at = clock()

    def current(self) -> Capabilities:
        if self._clock() - self._found_at >= KEPT:
            self._found = Capabilities()
        return self._found

    def note(self, dialect: Capabilities, refusal: StatusFault) -> None:
        """Remember these, unless the schema was at fault: other schemas would lose their form because of it."""
        if dialect.form is not self._found.form and OF_THE_SCHEMA.search(refusal.words):
            return
        self._found, self._found_at = dialect, self._clock()
        log.info(
            "llm_dialect_changed",
            status=refusal.status,
            form=dialect.form.name.lower(),
            usage=dialect.counts,
            limit=dialect.limit,
            temperature=dialect.cool,
        )
