"""Reads an answer as it arrives, and decides what it is: an Answer or the error that explains why there is none.

It arrives as server-sent events, or as one JSON object from servers that do not stream. The `finish_reason` is checked
before any of the text is used. Events are parsed here and not by a library for two reasons: no event may exceed 8 MiB,
and llama.cpp sends errors in a field `error:` that server-sent events do not have.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from app.adapters.llm.dialect import instructions
from app.adapters.llm.failures import error_in_stream
from app.adapters.llm.repetition import RepetitionDetector
from app.domain.errors import Unavailable
from app.domain.llm.token_estimate import PER_TOKEN, estimate_tokens, least_tokens
from app.domain.text import scrub
from app.ports.llm import Answer, LlmContextExceeded, LlmRefused, LlmTruncated, Question, TokenUsage

LONGEST_EVENT = 8 * 1024 * 1024
"""Bytes of a line or event."""

LONGEST_TOKEN = 16
"""Characters of a token, on average. An answer longer than its tokens could be is from a server that ignores the
limit."""

TAIL = 5.0
"""Seconds for the rest after the answer's end: the usage and the end of the stream."""

MOST_TOKENS = 2**31 - 1


class ProtocolFault(Exception):
    """The answer is not one of this protocol."""


class AnswerReader:
    def __init__(self, *, max_output_tokens: int) -> None:
        self._left = LONGEST_TOKEN * max_output_tokens
        self._parts: list[str] = []
        self._repetitions = {"content": RepetitionDetector(), "thoughts": RepetitionDetector()}
        self.characters = 0
        """Characters of the text and of the model's thoughts."""
        self.finish: object = None
        """The `finish_reason`, once there is one."""
        self.refused = False
        self.endless = False
        self.usage: TokenUsage | None = None
        self.cached = 0
        """Tokens of the input that some servers leave out of the input's count."""

    @property
    def text(self) -> str:
        return "".join(self._parts)

    async def take(self, chunks: AsyncIterator[bytes]) -> None:
        """Read the answer to its end, or until no more is needed."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as tail:
                async for event in _events(chunks):
                    if event.strip() == b"[DONE]" or not self._add(event):
                        return
                    if self.finish is not None and tail.when() is None:
                        tail.reschedule(loop.time() + TAIL)
        except TimeoutError:
            if self.finish is None:
                raise

    def _add(self, event: bytes) -> bool:
        """Add an event. Returns True if more is wanted."""
        if not event.strip():
            return True
        try:
            found = json.loads(event)
        except (ValueError, RecursionError):
            raise ProtocolFault from None
        if not isinstance(found, dict):
            raise ProtocolFault
        if error := found.get("error"):
            raise error_in_stream(error)
        self._count(found.get("usage"))
        choices = found.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and not choice.get("index"):
                self._choose(choice)
        return not self.endless

    def _choose(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, dict):
            raise ProtocolFault
        self.refused |= bool(delta.get("refusal"))
        self._note("thoughts", _text(delta.get("reasoning_content") or delta.get("reasoning")))
        text = _text(delta.get("content"))
        self._parts.append(text)
        self._note("content", text)
        if choice.get("finish_reason") is not None:
            self.finish = choice["finish_reason"]

    def _note(self, kind: str, text: str) -> None:
        self.characters += len(text)
        if self._repetitions[kind].closed_by(text) or self.characters > self._left:
            self.endless = True

    def _count(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        read, written = _tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens"))
        if read is None or written is None:
            return
        self.usage = TokenUsage(input_tokens=read, output_tokens=written)
        details = usage.get("prompt_tokens_details")
        self.cached = (_tokens(details.get("cached_tokens")) or 0) if isinstance(details, Mapping) else 0


def _text(content: object) -> str:
    """The text of a content that is a text, nothing, or a list of parts."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
        case _:
            raise ProtocolFault


def _tokens(count: object) -> int | None:
    """The count of tokens, or None if the value is no such count."""
    whole = isinstance(count, int) and not isinstance(count, bool)
    return count if whole and 0 <= count <= MOST_TOKENS else None  # type: ignore[operator, return-value]


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of each event. A body that begins with `{` is one event."""
    data: list[bytes] = []
    whole: bool | None = None
    async for line in _lines(chunks):
        whole = line.lstrip().startswith(b"{") if whole is None and line.strip() else whole
        name, _, value = line.partition(b":")
        if whole:
            data.append(line)
        elif name in {b"data", b"error"}:
            # llama.cpp names the field `error` where it should be `data`.
            data.append(value.removeprefix(b" ") if name == b"data" else b'{"error":' + value + b"}")
        elif not line and data:
            yield b"\n".join(data)
            data = []
        if sum(map(len, data)) > LONGEST_EVENT:
            raise ProtocolFault
    if data:
        yield b"\n".join(data)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for chunk in chunks:
        rest += chunk
        *lines, last = rest.split(b"\n")
        for line in lines:
            yield bytes(line.removesuffix(b"\r"))
        rest = last
        if len(rest) > LONGEST_EVENT:
            raise ProtocolFault
    if rest:
        yield bytes(rest.removesuffix(b"\r"))


COMPLETE = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence"})
CUT = frozenset({"length", "max_tokens", "model_length"})
REFUSED = frozenset({"content_filter", "refusal", "safety", "recitation", "blocklist", "prohibited_content", "spii"})
"""Reasons for a refusal, in lower case: those of OpenAI, text-generation-inference, Mistral, Anthropic and Google."""

NOT_WORTH_A_LOOK = 256
"""Tokens. Shorter questions are not checked, because every server's context is longer."""

_THOUGHTS = re.compile(r"\s*<think>.*?</think>\s*", re.DOTALL)
"""The thoughts of a model, left in its text by some servers."""

_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([0-9a-fA-F]{4})|\\.", re.DOTALL)
"""A surrogate pair, one code unit, or another escape, which may be that of the backslash before a `u`."""


def least_input_tokens(question: Question) -> int:
    """The fewest tokens that the question can have."""
    return least_tokens(instructions(question)) + least_tokens(question.user)


def estimated_usage(question: Question, reading: AnswerReader) -> TokenUsage:
    read = estimate_tokens(instructions(question)) + estimate_tokens(question.user)
    return TokenUsage(input_tokens=read, output_tokens=-(-reading.characters // PER_TOKEN))


def answer_of(question: Question, reading: AnswerReader) -> Answer:
    """The answer. Raises LlmFault if the model gave none, and Unavailable if the answer did not come to its end."""
    usage = reading.usage or estimated_usage(question, reading)
    if reading.endless:
        raise LlmTruncated("the language model repeated itself without end and was cut off", usage=usage)
    if reading.finish is None:
        raise Unavailable("the language model's answer broke off", excusable=False)
    reason = reading.finish.lower() if isinstance(reading.finish, str) else ""
    if reason in REFUSED or reading.refused:
        raise LlmRefused("the language model refuses to answer", usage=usage)
    _check_that_all_was_read(question, reading, usage)
    if reason in CUT:
        raise LlmTruncated(f"the answer reached {question.max_output_tokens} tokens and is incomplete", usage=usage)
    if reason not in COMPLETE:
        raise Unavailable("the language model returned an unknown finish_reason", excusable=False)
    thoughts = _THOUGHTS.match(reading.text)
    text = scrub(reading.text[thoughts.end() :] if thoughts else reading.text)
    return Answer(text=text if question.schema is None else without_bad_escapes(text), usage=usage)


def _check_that_all_was_read(question: Question, reading: AnswerReader, usage: TokenUsage) -> None:
    """Raise LlmContextExceeded if fewer tokens were read than the question has.

    Ollama, for example, cuts a question that is too long without saying so. A count of 0 means that the server did not
    count.
    """
    read, least = usage.input_tokens + reading.cached, least_input_tokens(question)
    if reading.usage is not None and 0 < read < least and least >= NOT_WORTH_A_LOOK:
        raise LlmContextExceeded(
            f"the language model has read {read} tokens of at least {least}: its server cuts questions that are too"
            " long",
            usage=usage,
        )


def without_bad_escapes(json_text: str) -> str:
    r"""JSON text without `\u0000` and escaped lone surrogates, which no store can hold once they are parsed."""

    def storable(found: re.Match[str]) -> str:
        unit = found[1]
        bad = unit is not None and (unit == "0000" or 0xD800 <= int(unit, 16) <= 0xDFFF)  # noqa: PLR2004 - surrogates
        return "" if bad else found[0]

    return _ESCAPE.sub(storable, json_text)
