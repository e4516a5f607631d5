"""The form of an upload, from a path, from bytes or from an open file; it can be sent again."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import httpx

IN_MEMORY_LIMIT = 1024 * 1024
"""Bytes that are kept in memory of a file that can be read only once."""

UploadSource = Path | str | bytes | IO[bytes]
"""A path, the bytes themselves, or a file that is open for reading in binary; it is read from its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadForm:
    headers: Mapping[str, str]
    body: Callable[[], Iterator[bytes]]
    """From the start, each time."""


@contextmanager
def open_form(
    source: UploadSource,
    *,
    filename: str | None = None,
    jobs: Sequence[Mapping[str, Any]] | None = None,
    language: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    sent: Callable[[int], object],
) -> Iterator[UploadForm]:
    """`sent` is told the bytes sent so far, the form's own among them. Raises OSError for what can't be read."""
    fields = {
        # No jobs is another wish than the usual ones.
        "jobs": None if jobs is None else json.dumps(list(jobs)),
        "language": language,
        "metadata": json.dumps(metadata) if metadata else None,
    }
    with _file(source) as file:
        # A name may hold bytes that are no text in any encoding.
        name = _name(source, filename).encode(errors="replace").decode()
        request = httpx.Request(
            "POST",
            "http://form",
            files={"file": (name, file, "application/octet-stream")},
            data={name: value for name, value in fields.items() if value is not None},
        )
        headers = {name: request.headers[name] for name in ("Content-Type", "Content-Length")}
        yield UploadForm(headers=headers, body=lambda: _counted(request.stream, sent))


@contextmanager
def _file(source: UploadSource) -> Iterator[IO[bytes]]:
    if isinstance(source, bytes):
        yield BytesIO(source)
    elif isinstance(source, (str, Path)):
        with Path(source).open("rb") as file:
            yield file
    elif source.seekable():
        yield source
    else:
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_LIMIT) as kept:
            shutil.copyfileobj(source, kept)
            kept.seek(0)
            yield kept


def _name(source: UploadSource, filename: str | None) -> str:
    if filename is not None:
        return filename
    path = source if isinstance(source, (str, Path)) else getattr(source, "name", None)
    return Path(path).name if isinstance(path, (str, Path)) else "document"


def _counted(stream: Any, sent: Callable[[int], object]) -> Iterator[bytes]:
    total = 0
    for chunk in stream:
        total += len(chunk)
        yield chunk
        sent(total)


DOWNLOAD_CHUNK = 256 * 1024
_FILENAME = re.compile(r"filename\*=UTF-8''([^;\s]+)")


class Download:
    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        length = response.headers.get("Content-Length")
        self.size = int(length) if length else None
        """Bytes; None where the server does not know them ahead."""
        told = _FILENAME.search(response.headers.get("Content-Disposition", ""))
        self.filename = unquote(told[1]) if told else None
        """The file name as the server sends it: it may be anything."""

    def chunks(self) -> Iterator[bytes]:
        """Raises httpx.RemoteProtocolError where the server broke off."""
        return self._response.iter_bytes(DOWNLOAD_CHUNK)
