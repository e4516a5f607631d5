"""The rendering port: a file in, its pages to look at or a searchable copy out."""

from collections.abc import AsyncIterator, Sequence
from typing import IO, Protocol

from app.domain.pages import Page


class Renderer(Protocol):
    """Of files of the types that `renders` knows. `content` is a file's bytes, `into` takes what is made of it.

    Cancelling ends the work at once. What was written by then is of no use.
    Raises DocumentFault where the file is to blame, Unavailable where we are.
    """

    version: str
    """Another one may draw the same page in other bytes."""

    def renders(self, media_type: str) -> bool:
        """Whether files of the type have pages to look at."""
        ...

    async def page_image(
        self, content: AsyncIterator[bytes], *, media_type: str, number: int, width: int, into: IO[bytes]
    ) -> None:
        """A PNG of a page as displayed, so many pixels wide, or less where it is very long.

        Raises NotFound where the file has no such page.
        """
        ...

    async def searchable(
        self,
        content: AsyncIterator[bytes],
        *,
        media_type: str,
        pages: AsyncIterator[Sequence[Page]],
        into: IO[bytes],
    ) -> None:
        """A PDF that looks as the file does, with what was recognised as invisible text. `pages` come in order."""
        ...
