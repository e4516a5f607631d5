"""A file that the service hands out, as it arrives."""

import re
from collections.abc import Iterator
from urllib.parse import unquote

import httpx

CHUNK = 256 * 1024
_FILENAME = re.compile(r"filename\*=UTF-8''([^;\s]+)")


class Download:
    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        length = response.headers.get("Content-Length")
        self.size = int(length) if length else None
        """Bytes; None where the server does not know them ahead."""
        told = _FILENAME.search(response.headers.get("Content-Disposition", ""))
        self.filename = unquote(told[1]) if told else None
        """As the server says: it may be anything."""

    def chunks(self) -> Iterator[bytes]:
        """Raises httpx.RemoteProtocolError where the server broke off."""
        return self._response.iter_bytes(CHUNK)
