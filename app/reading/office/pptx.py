"""PPTX: each slide is a page, with its tables, diagrams and notes. A hidden slide keeps its number without its text."""

from collections.abc import Mapping
from enum import Enum, auto
from pathlib import Path

from app.reading.office.blocks import BlockWriter
from app.reading.office.pagination import PageWriter
from app.reading.office.zip_package import ZipPackage

_SHAPES = frozenset({"sp", "pic", "graphicFrame", "grpSp", "cxnSp"})
_NUMBERS = frozenset({"sldNum", "sldImg", "dt", "hdr"})
"""Placeholders without content: slide numbers, dates, headers, and the picture of the slide above its notes."""
_READ_WITH_SLIDE = ("diagramData", "notesSlide")
_TRUE = frozenset({"1", "true"})


def read(path: Path, pages: PageWriter) -> None:
    with ZipPackage.opened(path) as package:
        main = package.main()
        relations = package.relations(main)
        order = _SlideOrder()
        package.walk(main, order)
        for slide in order.slides:
            if slide in relations:
                pages.begin_page()
                _read_slide(package, relations[slide].target, pages)


def _read_slide(package: ZipPackage, part: str, pages: PageWriter) -> None:
    slide = _Slide(pages)
    package.walk(part, slide)
    if slide.is_hidden:
        return
    beside = package.relations(part).values()
    for kind in _READ_WITH_SLIDE:
        for relation in beside:
            if relation.kind == kind:
                package.walk_if_there(relation.target, _Slide(pages))


class _SlideOrder:
    """A walker that collects the slides in order, as ids of relations."""

    def __init__(self) -> None:
        self.slides: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "sldId":
            self.slides.append(attributes.get("r:id", ""))

    def end(self, tag: str) -> None: ...

    def data(self, text: str) -> None: ...


class _Shape(Enum):
    SHOWN = auto()
    HIDDEN = auto()
    NO_CONTENT = auto()


class _Slide:
    """A walker of one slide, its diagram or its notes."""

    def __init__(self, pages: PageWriter) -> None:
        self._pages = pages
        self._blocks = BlockWriter(pages)
        self._shapes: list[_Shape] = []
        """The open shapes, groups before their members."""
        self._fallbacks = 0
        self._in_text = False
        self.is_hidden = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._fallbacks or tag == "Fallback":
            self._fallbacks += 1
        elif tag == "sld":
            self.is_hidden = attributes.get("show", "1") in {"0", "false"}
        elif tag in _SHAPES:
            self._shapes.append(self._shape)
        elif tag in {"cNvPr", "ph"}:
            self._classify_shape(tag, attributes)
        else:
            self._content(tag)

    def end(self, tag: str) -> None:
        if self._fallbacks:
            self._fallbacks -= 1
        elif tag in _SHAPES and self._shapes:
            self._shapes.pop()
        elif tag == "t":
            self._in_text = False
        elif tag == "p":
            self._blocks.end_paragraph()
        elif tag == "tr":
            self._blocks.end_row()

    def data(self, text: str) -> None:
        if not self._in_text or self._fallbacks:
            return
        if self.is_hidden or self._shape is _Shape.HIDDEN:
            if text.strip():
                self._pages.hide()
        elif self._shape is _Shape.SHOWN:
            self._blocks.text(text)

    @property
    def _shape(self) -> _Shape:
        return self._shapes[-1] if self._shapes else _Shape.SHOWN

    def _classify_shape(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self._shapes:
            return
        if tag == "ph" and attributes.get("type") in _NUMBERS:
            self._shapes[-1] = _Shape.NO_CONTENT
        elif tag == "cNvPr" and attributes.get("hidden") in _TRUE:
            self._shapes[-1] = _Shape.HIDDEN

    def _content(self, tag: str) -> None:
        match tag:
            case "p":
                self._blocks.begin_paragraph()
            case "t":
                self._in_text = True
            case "br":
                self._blocks.text("\n")
            case "tr":
                self._blocks.begin_row()
            case "tc":
                self._blocks.begin_cell()
            case _:
                pass
