"""The messages between the service and a child: JSON preceded by its length."""

import json
import os
import struct
from asyncio import StreamReader
from collections.abc import Sequence
from typing import Any, BinaryIO

from app.domain.pages import Page, Source
from app.domain.warnings import DocumentWarning, WarningCode
from app.reading.geometry import words_from_columns

Message = dict[str, Any]
BYTES = "bytes"
"""The key of a message that announces bytes: a part of an answer that is still to come."""

_LENGTH = struct.Struct(">I")
_LONGEST = 64 * 1024 * 1024
"""Bytes of a message at most, ten times the longest page that a child sends."""


def frame(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    return _LENGTH.pack(len(body)) + body


def frame_bytes(content: bytes) -> bytes:
    """A message with the content's length, followed by the content itself."""
    return frame({BYTES: len(content)}) + content


async def receive(stream: StreamReader) -> Message:
    """The next message. Raises asyncio.IncompleteReadError at the stream's end, ValueError or TypeError if invalid."""
    (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
    if length > _LONGEST:
        raise ValueError("A message longer than any page")
    return _decoded(await stream.readexactly(length))


async def receive_bytes(stream: StreamReader, announced: Message) -> bytes:
    """The bytes that a message announced. Raises the same exceptions as `received`."""
    if not 0 <= announced[BYTES] <= _LONGEST:
        raise ValueError("A chunk longer than any")
    return await stream.readexactly(announced[BYTES])


def read(stream: BinaryIO) -> Message | None:
    """The next message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return _decoded(stream.read(_LENGTH.unpack(head)[0]))


def private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """A child's private copies of stdin and stdout. C libraries print to stdout, which becomes stderr."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, answers


def send(answers: BinaryIO, message: Message) -> None:
    answers.write(frame(message))
    answers.flush()


def _decoded(body: bytes) -> Message:
    message = json.loads(body)
    if not isinstance(message, dict):
        raise TypeError("A message is an object")
    return message


_PER_POINT = 100
"""Boxes are sent in hundredths of a point, because JSON is three times as fast with whole numbers."""


def packed_words(page: Page) -> Message:
    """The page as a message, its words as columns. A book has 300,000 words: keys for each would take a second."""
    words = page.words
    return {
        "number": page.number,
        "text": page.text,
        "source": page.source,
        "confidence": page.confidence,
        "width": page.width,
        "height": page.height,
        "rotation": page.rotation,
        "language": page.language,
        "words": {
            "text": [word.text for word in words],
            "box": [int(edge * _PER_POINT + 0.5) for word in words for edge in word.box],
            "confidence": _shortened([word.confidence for word in words]),
            "source": _shortened([word.source for word in words]),
            "line": [word.line for word in words],
            "block": [word.block for word in words],
        },
        "warnings": page.warnings,
    }


def unpacked_words(message: Message) -> Page:
    columns = message["words"]
    count = len(columns["text"])
    edges = iter([edge / _PER_POINT for edge in columns["box"]])
    words = words_from_columns(
        texts=columns["text"],
        boxes=zip(edges, edges, edges, edges, strict=True),
        confidences=_lengthened(columns["confidence"], count),
        sources=_lengthened([Source(source) for source in columns["source"]], count),
        lines=columns["line"],
        blocks=columns["block"],
    )
    warnings = tuple(map(WarningCode, message["warnings"]))
    return Page(**{**message, "source": Source(message["source"]), "words": tuple(words), "warnings": warnings})


def _shortened(column: list[Any]) -> list[Any]:
    """The column, reduced to one value if all are equal."""
    return column[:1] if column.count(column[0] if column else None) == len(column) else column


def _lengthened(column: list[Any], count: int) -> list[Any]:
    return column * count if len(column) == 1 else column


def packed_warnings(warnings: Sequence[DocumentWarning]) -> list[tuple[str, str]]:
    """Warnings about a file as a whole, without page numbers, as JSON values."""
    return [(warning.code, warning.detail) for warning in warnings]


def unpacked_warnings(packed: Sequence[Sequence[str]]) -> tuple[DocumentWarning, ...]:
    return tuple(DocumentWarning(code=WarningCode(code), detail=detail) for code, detail in packed)
