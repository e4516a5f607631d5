"""What has come of an answer so far: server-sent events, or one JSON object from servers that do not stream.

Lines are split by hand: JSON may contain U+2028 and U+0085, at which Python's own splitting of text breaks.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from app.adapters.llm.circles import Circles
from app.adapters.llm.failures import refusal_in_stream
from app.ports.llm import Usage

LONGEST_EVENT = 8 * 1024 * 1024
"""Bytes."""

LONGEST_TOKEN = 16
"""Characters, on average: an answer longer than its tokens could be comes from a server that ignores the limit."""

TAIL = 5.0
"""Seconds for what follows the answer's end: the usage, and the end of the stream."""

MOST_TOKENS = 2**31 - 1


class Garbled(Exception):
    """No answer of this protocol."""


class Reading:
    def __init__(self, *, max_output_tokens: int) -> None:
        self._left = LONGEST_TOKEN * max_output_tokens
        self._said: list[str] = []
        self._circles = {"content": Circles(), "thoughts": Circles()}
        self.characters = 0
        """Of text and thoughts."""
        self.finish: object = None
        """The `finish_reason`, once there is one."""
        self.refused = False
        self.endless = False
        self.usage: Usage | None = None
        self.cached = 0
        """Tokens of the input that some servers leave out of it."""

    @property
    def text(self) -> str:
        return "".join(self._said)

    async def take(self, chunks: AsyncIterator[bytes]) -> None:
        """Until the end, or until there is no need to read on."""
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
        """Whether more is wanted."""
        if not event.strip():
            return True
        try:
            found = json.loads(event)
        except (ValueError, RecursionError):
            raise Garbled from None
        if not isinstance(found, dict):
            raise Garbled
        if error := found.get("error"):
            raise refusal_in_stream(error)
        self._count(found.get("usage"))
        choices = found.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and not choice.get("index"):
                self._choose(choice)
        return not self.endless

    def _choose(self, choice: dict[str, Any]) -> None:
        told = choice.get("delta") or choice.get("message") or {}
        if not isinstance(told, dict):
            raise Garbled
        self.refused |= bool(told.get("refusal"))
        self._hear("thoughts", _text(told.get("reasoning_content") or told.get("reasoning")))
        text = _text(told.get("content"))
        self._said.append(text)
        self._hear("content", text)
        if choice.get("finish_reason") is not None:
            self.finish = choice["finish_reason"]

    def _hear(self, kind: str, text: str) -> None:
        self.characters += len(text)
        if self._circles[kind].closed_by(text) or self.characters > self._left:
            self.endless = True

    def _count(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        read, written = _tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens"))
        if read is None or written is None:
            return
        self.usage = Usage(input_tokens=read, output_tokens=written)
        details = usage.get("prompt_tokens_details")
        self.cached = (_tokens(details.get("cached_tokens")) or 0) if isinstance(details, Mapping) else 0


def _text(content: object) -> str:
    """A text, nothing, or parts with texts."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list():
            return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
        case _:
            raise Garbled


def _tokens(count: object) -> int | None:
    """None for what is no count."""
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
            raise Garbled
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
            raise Garbled
    if rest:
        yield bytes(rest.removesuffix(b"\r"))
