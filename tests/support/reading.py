"""A file read whole, as a test wants it."""

from pathlib import Path

from app.domain.pages import Page
from app.ports.ocr import Mode, Recognizer, Unreadable


async def pages_of(
    recognizer: Recognizer, path: Path, *, media_type: str, mode: Mode = Mode.AUTO, language: str = "eng"
) -> list[Page]:
    """In order. Raises what is wrong with a page that can't be read."""
    pages = []
    async with recognizer.open(path, media_type=media_type, language=language, mode=mode) as file:
        async for read in file.pages():
            if isinstance(read, Unreadable):
                raise read.fault
            pages.append(read)
    return sorted(pages, key=lambda page: page.number)
