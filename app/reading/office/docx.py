"""DOCX, walked as XML, because the available library skips content controls, insertions, fields and text boxes.

Pages begin where Word found a page break when it last saved the file, and at the author's page breaks. Headers come
first and footers last, each once.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from app.domain.warnings import WarningCode
from app.reading.office.docx_body import DocxStory, DocxStyles
from app.reading.office.pagination import PageWriter
from app.reading.office.zip_package import PackageRelation, ZipPackage

_LONGEST_ASIDE = 100
"""Pages of a header or a footnote at most."""


def read(path: Path, pages: PageWriter) -> None:
    with ZipPackage.opened(path) as package:
        main = package.main()
        relations = package.relations(main).values()
        styles = DocxStyles()
        for part in _parts(package, relations, "styles"):
            package.walk(part, styles)
        hidden = styles.hidden()
        notes = _Notes(pages, hidden_styles=hidden)
        for part in _parts(package, relations, "footnotes", "endnotes"):
            package.walk(part, notes)
        _margins(package, _parts(package, relations, "header"), hidden, pages=pages)
        package.walk(main, DocxStory(pages, hidden_styles=hidden, notes=notes.found))
        _margins(package, _parts(package, relations, "footer"), hidden, pages=pages)


def _parts(package: ZipPackage, relations: Iterable[PackageRelation], *kinds: str) -> list[str]:
    return [relation.target for relation in relations if relation.kind in kinds and relation.target in package]


def _margins(package: ZipPackage, parts: list[str], hidden: frozenset[str], *, pages: PageWriter) -> None:
    """Write the text of headers or footers once each. Sections, first and even pages often repeat the same words."""
    seen = {""}
    for part in parts:
        aside = PageWriter(most=_LONGEST_ASIDE)
        package.walk(part, DocxStory(aside, hidden_styles=hidden))
        text = _text_of(aside, pages)
        if text not in seen:
            seen.add(text)
            pages.line(text)


def _text_of(aside: PageWriter, pages: PageWriter) -> str:
    done = aside.finished()
    if any(WarningCode.HIDDEN_TEXT in page.warnings for page in done):
        pages.hide()
    return "\n".join(page.text for page in done).strip()


class _Notes:
    """A walker of footnotes and endnotes, each read as a separate story."""

    def __init__(self, pages: PageWriter, *, hidden_styles: frozenset[str]) -> None:
        self._pages = pages
        self._hidden_styles = hidden_styles
        self._key = ("", "")
        self._aside = PageWriter(most=_LONGEST_ASIDE)
        self._story: DocxStory | None = None
        self.found: dict[tuple[str, str], str] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in {"footnote", "endnote"}:
            self._key = (tag, attributes.get("id", ""))
            self._aside = PageWriter(most=_LONGEST_ASIDE)
            self._story = DocxStory(self._aside, hidden_styles=self._hidden_styles)
        elif self._story:
            self._story.start(tag, attributes)

    def end(self, tag: str) -> None:
        if tag in {"footnote", "endnote"}:
            self.found[self._key] = _text_of(self._aside, self._pages)
            self._story = None
        elif self._story:
            self._story.end(tag)

    def data(self, text: str) -> None:
        if self._story:
            self._story.data(text)
