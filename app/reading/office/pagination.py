"""The pages of a file that has text and no geometry: its own where it has any, cut where they run on."""

from dataclasses import dataclass, field

from app.domain.warnings import WarningCode
from app.reading.faults import scrubbed, too_many_pages

PAGE = 10_000
"""Characters: three pages of a book. Search and citations name a page, so none may be the whole document."""


@dataclass(slots=True)
class TextPage:
    text: str = ""
    warnings: set[WarningCode] = field(default_factory=set)


class PageWriter:
    """The output of a reader, in reading order. Memory is bounded by the number of pages.

    Raises DocumentFault (too_many_pages) as soon as there are more than `most`.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._done: list[TextPage] = []
        self._parts: list[str] = []
        """Warnings of the page that is being written."""
        self._length = 0
        self._inked = False
        self._warnings: set[WarningCode] = set()
        self._begun = False
        self._breaks = False
        self.attachments: list[str] = []

    def write(self, text: str) -> None:
        """Text as it comes; a form feed in it is a page break."""
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
        """A page ends here, provided that anything follows."""
        if self._breaks:
            self.begin_page()
        self._breaks = True

    def begin_page(self) -> None:
        """A page begins here, even if nothing follows."""
        self._breaks = False
        if self._begun:
            self._finish()
        self._begun = True

    @property
    def is_blank(self) -> bool:
        """True while the page that is being written is empty."""
        return self._breaks or not self._inked

    def hide(self) -> None:
        """Text of this page was left out because no reader would see it."""
        if self._breaks:
            self.begin_page()
        self._warnings.add(WarningCode.HIDDEN_TEXT)

    def finished(self) -> list[TextPage]:
        """At least one page, maybe a blank one."""
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
    """The latest place to cut: after a paragraph, a line or a word, and not within the first half of a page."""
    for separator in ("\n\n", "\n", " "):
        at = text.rfind(separator, start + PAGE // 2, start + PAGE)
        if at >= 0:
            return at + len(separator)
    return start + PAGE
