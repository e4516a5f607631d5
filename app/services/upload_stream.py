"""An upload's size, hash, type and duration, checked while its bytes pass on to the blob store."""

import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from app.domain.documents import ACCEPTED_WITHIN
from app.domain.errors import Invalid, TooLarge
from app.domain.filetypes.sniff import Sniffer
from app.domain.filetypes.types import HEAD


class UploadStream:
    """Passes a stream on while it counts and hashes it and finds its type: from the content, never from the name."""

    def __init__(self, chunks: AsyncIterator[bytes], *, limit: int, begun_at: datetime) -> None:
        self._chunks = chunks
        self._limit = limit
        self._begun_at = begun_at
        self._head = b""
        self.media_type = ""
        """The type that was found; empty until the whole stream has passed."""
        self.size = 0
        self.digest = hashlib.sha256()

    async def begin(self) -> None:
        """Read just enough to find an unsupported type early. Raises Invalid for an empty file, else Unsupported."""
        async for chunk in self._chunks:
            self._head += chunk
            if len(self._head) >= HEAD:
                break
        if not self._head:
            raise Invalid("the file is empty", pointer="/file")
        self._sniffer = Sniffer(self._head)

    async def stream(self) -> AsyncIterator[bytes]:
        yield self._passed(self._head)
        self._head = b""
        async for chunk in self._chunks:
            yield self._passed(chunk)
        # Within the stream: an error here leaves no blob behind.
        self.media_type = self._sniffer.media_type()

    def _passed(self, chunk: bytes) -> bytes:
        self.size += len(chunk)
        if self.size > self._limit:
            raise TooLarge(f"the file has more than {self._limit:,} bytes, this tenant's limit")
        refuse_late(self._begun_at)
        self.digest.update(chunk)
        self._sniffer.feed(chunk)
        return chunk


def refuse_late(begun_at: datetime) -> None:
    """Raise Invalid after `ACCEPTED_WITHIN`: the purge could take the bytes for an orphan's before their row exists."""
    if datetime.now(UTC) - begun_at > ACCEPTED_WITHIN:
        hours = ACCEPTED_WITHIN.total_seconds() / 3600
        raise Invalid(
            f"the upload took more than {hours:.0f} hours; send it again over a faster connection", pointer="/file"
        )
