"""What crosses the pipes between the service and a child: JSON with its length before it."""

import json
import struct
from asyncio import StreamReader
from collections.abc import Sequence
from typing import Any, BinaryIO

from app.domain.pages import Page, Source, Word
from app.domain.warnings import DocumentWarning, WarningCode

Message = dict[str, Any]

_LENGTH = struct.Struct(">I")
_LONGEST = 64 * 1024 * 1024
"""Ten times the longest page a child sends; a length beyond it is no length."""


def framed(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    return _LENGTH.pack(len(body)) + body


async def received(stream: StreamReader) -> Message:
    """Raises asyncio.IncompleteReadError at the end of the stream, ValueError for what is no message."""
    (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
    if length > _LONGEST:
        raise ValueError("A message longer than any page")
    return _decoded(await stream.readexactly(length))


def read(stream: BinaryIO) -> Message | None:
    """The next message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return _decoded(stream.read(_LENGTH.unpack(head)[0]))


def _decoded(body: bytes) -> Message:
    message = json.loads(body)
    if not isinstance(message, dict):
        raise TypeError("A message is an object")
    return message


def packed(page: Page) -> Message:
    """Words as arrays: names repeated for each would double the size."""
    return {
        "number": page.number,
        "text": page.text,
        "source": page.source,
        "confidence": page.confidence,
        "width": page.width,
        "height": page.height,
        "rotation": page.rotation,
        "language": page.language,
        "words": [(word.text, *word.box, word.confidence, word.source, word.line, word.block) for word in page.words],
        "warnings": page.warnings,
    }


def unpacked(message: Message) -> Page:
    words = tuple(
        Word(text=text, box=(x0, y0, x1, y1), confidence=confidence, source=Source(source), line=line, block=block)
        for text, x0, y0, x1, y1, confidence, source, line, block in message["words"]
    )
    warnings = tuple(map(WarningCode, message["warnings"]))
    return Page(**{**message, "source": Source(message["source"]), "words": words, "warnings": warnings})


def packed_warnings(warnings: Sequence[DocumentWarning]) -> list[tuple[str, str]]:
    """Of a file as a whole: they name no pages."""
    return [(warning.code, warning.detail) for warning in warnings]


def unpacked_warnings(packed: Sequence[Sequence[str]]) -> tuple[DocumentWarning, ...]:
    return tuple(DocumentWarning(code=WarningCode(code), detail=detail) for code, detail in packed)
