"""What an upload is found to be on its way to the blob store: how large, of which type, and in time."""

import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from app.domain.documents import ACCEPTED_WITHIN
from app.domain.errors import Invalid, TooLarge
from app.domain.filetypes.sniff import Sniffer
from app.domain.filetypes.types import HEAD


class UploadStream:
    """Counts, hashes and tells the type of a stream on its way: by content, never by name."""

    def __init__(self, chunks: AsyncIterator[bytes], *, limit: int, begun_at: datetime) -> None:
        self._chunks = chunks
        self._limit = limit
        self._begun_at = begun_at
        self._head = b""
        self.media_type = ""
        """Known when the stream has passed."""
        self.size = 0
        self.digest = hashlib.sha256()

    async def begin(self) -> None:
        """Read ahead just far enough to refuse what can be refused at once."""
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
        # Within the stream: what raises here leaves no blob behind.
        self.media_type = self._sniffer.media_type()

    def _passed(self, chunk: bytes) -> bytes:
        self.size += len(chunk)
        if self.size > self._limit:
            raise TooLarge(f"the file has more than {self._limit:,} bytes, the limit here")
        refuse_late(self._begun_at)
        self.digest.update(chunk)
        self._sniffer.feed(chunk)
        return chunk


def refuse_late(begun_at: datetime) -> None:
    """A row must not come to bytes that the purge takes for an orphan's."""
    if datetime.now(UTC) - begun_at > ACCEPTED_WITHIN:
        hours = ACCEPTED_WITHIN.total_seconds() / 3600
        raise Invalid(f"the upload took more than {hours:.0f} hours: send it again, and faster", pointer="/file")
