"""Request bodies: multipart forms, read as they arrive, and strict JSON.

The file of a form streams to the blob store, never whole in memory or on disk. JSON that the database or an answer
can't hold is refused.
"""

import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from app.domain.errors import Invalid, TooLarge

FIELD_LIMIT = 256 * 1024
"""The largest size, in bytes, of a field that is not the file."""

METADATA_LIMIT = 16 * 1024
"""The largest size of a document's metadata, in bytes: a listing has those of a hundred documents."""

SMALL_BODY = 32 * 1024
"""The largest size of a body that is parsed in the event loop, in bytes. A webhook with the longest URL and description
has 26,500 if each character is escaped."""

FIELD_LIMITS = {"metadata": METADATA_LIMIT, "language": 1024}

PARTS_LIMIT = 20


@dataclass(slots=True)
class MultipartForm:
    """A form whose parts are read in the order in which they were sent."""

    content_type: str
    body: AsyncIterator[bytes]
    fields: dict[str, str] = field(default_factory=dict)
    filename: str = ""

    async def parts(self) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of each file part, to be read before the next one; other parts go into `fields`.

        Raises Invalid for a malformed form, TooLarge for a field beyond its limit.
        """
        events = self._events()
        async for event in events:
            if not isinstance(event, MultipartSegment):
                continue
            if event.name in self.fields:
                raise Invalid(f"the field {event.name!r} was sent twice", pointer=f"/{event.name}")
            if event.name == "file":
                self.filename = event.filename or ""
                yield _until_end(events)
            else:
                self.fields[event.name] = await read_text(
                    _until_end(events), field=event.name, limit=FIELD_LIMITS.get(event.name, FIELD_LIMIT)
                )

    async def _events(self) -> AsyncIterator[MultipartSegment | bytearray | bytes | None]:
        media_type, options = parse_options_header(self.content_type)
        if media_type != "multipart/form-data" or "boundary" not in options:
            raise Invalid("send multipart/form-data with a boundary and a part named file")
        try:
            with PushMultipartParser(options["boundary"], max_segment_count=PARTS_LIMIT) as parser:
                async for chunk in self.body:
                    for event in parser.parse(chunk):
                        yield event
        except MultipartError as error:
            raise Invalid(f"the multipart body is malformed: {error.args[0]}") from error


async def _until_end(
    events: AsyncIterator[MultipartSegment | bytearray | bytes | None],
) -> AsyncIterator[bytes]:
    async for event in events:
        if event is None:
            return
        assert not isinstance(event, MultipartSegment)
        yield bytes(event)


async def read_text(chunks: AsyncIterator[bytes], *, field: str = "", limit: int = FIELD_LIMIT) -> str:
    """Read a short part, or a body that is no form, as text. Raises TooLarge, and Invalid if it is not UTF-8."""
    name = f"the field {field!r}" if field else "the body"
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) > limit:
            raise TooLarge(f"{name} has more than {limit:,} bytes", pointer=f"/{field}")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{name} is not UTF-8", pointer=f"/{field}") from None


NESTING = 100
"""The deepest nesting that is accepted; the encoder of answers fails at 255 levels."""

DIGITS = 300
"""The most digits of a whole number: about as many as a float can have."""

BYTE_ORDER_MARK = "\ufeff"
"""A mark that Windows programs write at the beginning. RFC 8259 allows a parser to skip it."""


def parse_json(text: str) -> object:
    """Parse strict JSON. Raises ValueError, also for NaN, with a message for the client."""
    try:
        value: object = json.loads(
            text.removeprefix(BYTE_ORDER_MARK), parse_constant=_no_constant, parse_int=_int, parse_float=_float
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _look_through(value, NESTING)
    return value


def whole(number: object) -> object:
    """Return 150.0 as 150, because JSON Schema counts it as an integer."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _no_constant(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _int(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number has more than {DIGITS} digits")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large to be stored")
    return number


def _look_through(value: object, levels: int) -> None:
    if levels == 0:
        raise ValueError(f"it is nested more than {NESTING} levels deep")
    match value:
        case str():
            _look_at(value)
        case list():
            for part in value:
                _look_through(part, levels - 1)
        case dict():
            for name, part in value.items():
                _look_at(name)
                _look_through(part, levels - 1)
        case _:
            pass


def _look_at(text: str) -> None:
    if "\x00" in text:
        raise ValueError("a NUL character can't be stored")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no character") from None
