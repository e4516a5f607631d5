"""The pages of a file with text and no geometry: the file's own pages if it has any, split if they are too long."""

from dataclasses import dataclass, field

from app.domain.warnings import WarningCode
from app.reading.faults import scrubbed, too_many_pages

PAGE = 10_000
"""Characters of a page at most, as of three pages of a book. Search and citations name pages, so they must be short."""


@dataclass(slots=True)
class TextPage:
    """One finished page."""

    text: str = ""
    warnings: set[WarningCode] = field(default_factory=set)


class PageWriter:
    """Takes a reader's text in reading order and splits it into pages. The number of pages bounds the memory.

    Raises DocumentFault (too_many_pages) as soon as there are more than `most`.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._done: list[TextPage] = []
        self._parts: list[str] = []
        """The parts of the current page."""
        self._length = 0
        self._inked = False
        self._warnings: set[WarningCode] = set()
        self._begun = False
        self._breaks = False
        self.attachments: list[str] = []

    def write(self, text: str) -> None:
        """Append text. A form feed in it is a page break."""
        if "\f" not in text:
            self._append(text)
            return
        for number, part in enumerate(text.split("\f")):
            if number:
                self.end_page()
            self._append(part)

    def line(self, text: str) -> None:
        self.write(text + "\n")

    def end_page(self) -> None:
        """End the current page if any text follows."""
        if self._breaks:
            self.begin_page()
        self._breaks = True

    def begin_page(self) -> None:
        """Begin a page, even if no text follows."""
        self._breaks = False
        if self._begun:
            self._finish()
        self._begun = True

    @property
    def is_blank(self) -> bool:
        """True while the current page has no text."""
        return self._breaks or not self._inked

    def hide(self) -> None:
        """Note that text of this page was left out because a reader would not see it."""
        if self._breaks:
            self.begin_page()
        self._warnings.add(WarningCode.HIDDEN_TEXT)

    def finished(self) -> list[TextPage]:
        """All pages, at least one, which may be blank."""
        self._begun = True
        self._finish()
        return self._done

    def _append(self, text: str) -> None:
        if not text:
            return
        inked = not text.isspace()
        if self._breaks:
            if not inked:
                return
            self.begin_page()
        self._begun = True
        self._inked = self._inked or inked
        self._parts.append(text)
        self._length += len(text)
        if self._length > PAGE:
            self._cut()

    def _cut(self) -> None:
        text = "".join(self._parts)
        start = 0
        while len(text) - start > PAGE:
            end = _page_break(text, start)
            self._parts, self._length = [text[start:end]], end - start
            self._finish()
            start = end
        self._parts, self._length = [text[start:]], len(text) - start
        self._inked = not self._parts[0].isspace()

    def _finish(self) -> None:
        if len(self._done) >= self._most:
            raise too_many_pages(self._most)
        text = scrubbed("".join(self._parts))
        self._done.append(TextPage(text=text.strip("\n").rstrip(), warnings=self._warnings))
        self._parts, self._length, self._inked, self._warnings = [], 0, False, set()


def _page_break(text: str, start: int) -> int:
    """The place to split the text: after a paragraph, a line or a word, and not within the first half of a page."""
    for separator in ("\n\n", "\n", " "):
        at = text.rfind(separator, start + PAGE // 2, start + PAGE)
        if at >= 0:
            return at + len(separator)
    return start + PAGE
