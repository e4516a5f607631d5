"""An answer, or why there is none: the `finish_reason` is looked at before a word of the text is."""

import re

from app.adapters.llm.dialect import instructions
from app.adapters.llm.stream import Reading
from app.domain.errors import Unavailable
from app.domain.text import scrub
from app.domain.tokens import PER_TOKEN, at_least, estimate
from app.ports.llm import Answer, LlmContextExceeded, LlmRefused, LlmTruncated, Question, Usage

COMPLETE = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence"})
CUT = frozenset({"length", "max_tokens", "model_length"})
REFUSED = frozenset({"content_filter", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii"})
"""In lower case. OpenAI's, text-generation-inference's, Mistral's, Anthropic's, Google's."""

NOT_WORTH_A_LOOK = 256
"""Tokens: no server's context is as short."""

_THOUGHTS = re.compile(r"\s*<think>.*?</think>\s*", re.DOTALL)
"""Models that think aloud, behind servers that don't take it out."""

_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([0-9a-fA-F]{4})|\\.", re.DOTALL)
"""A surrogate pair, one code unit, or another escape, which may be of the backslash before a `u`."""


def expected(question: Question) -> int:
    """Tokens of the question, at least."""
    return at_least(instructions(question)) + at_least(question.user)


def estimated(question: Question, reading: Reading) -> Usage:
    read = estimate(instructions(question)) + estimate(question.user)
    return Usage(input_tokens=read, output_tokens=-(-reading.characters // PER_TOKEN))


def verdict(question: Question, reading: Reading) -> Answer:
    """Raises LlmFault; Unavailable for what never came to its end."""
    usage = reading.usage or estimated(question, reading)
    if reading.endless:
        raise LlmTruncated("the language model came to no end, and was cut off", usage=usage)
    if reading.finish is None:
        raise Unavailable("the language model's answer broke off")
    reason = reading.finish.lower() if isinstance(reading.finish, str) else ""
    if reason in REFUSED or reading.refused:
        raise LlmRefused("the language model refuses", usage=usage)
    _check_that_all_was_read(question, reading, usage)
    if reason in CUT:
        raise LlmTruncated(f"the answer reached {question.max_output_tokens} tokens, and is not whole", usage=usage)
    if reason not in COMPLETE:
        raise Unavailable("the language model ended its answer for a reason that is none")
    thoughts = _THOUGHTS.match(reading.text)
    text = scrub(reading.text[thoughts.end() :] if thoughts else reading.text)
    return Answer(text=text if question.schema is None else without_bad_escapes(text), usage=usage)


def _check_that_all_was_read(question: Question, reading: Reading, usage: Usage) -> None:
    """Ollama, for one, cuts a question that is too long, and says nothing of it. No tokens at all: it did not count."""
    read, least = usage.input_tokens + reading.cached, expected(question)
    if reading.usage is not None and 0 < read < least and least >= NOT_WORTH_A_LOOK:
        raise LlmContextExceeded(
            f"the language model has read {read} tokens of at least {least}: its server cuts what is too"
            " long. Give it more context (Ollama: num_ctx), and set DAIRA_LLM_CONTEXT_TOKENS to what it has",
            usage=usage,
        )


def without_bad_escapes(json_text: str) -> str:
    r"""JSON text without `\u0000` and escaped lone surrogates, which no store can hold once they are parsed."""

    def kept(found: re.Match[str]) -> str:
        unit = found[1]
        bad = unit is not None and (unit == "0000" or 0xD800 <= int(unit, 16) <= 0xDFFF)  # noqa: PLR2004 - surrogates
        return "" if bad else found[0]

    return _ESCAPE.sub(kept, json_text)
