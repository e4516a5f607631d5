"""The formats in which a document's whole text can be downloaded, page after page."""

from collections.abc import Callable
from dataclasses import dataclass

from app.domain.documents import Document
from app.domain.formats import alto, hocr, markdown
from app.domain.pages import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    media_type: str
    suffix: str
    """The suffix of a file's name."""
    head: Callable[[Document], str]
    page: Callable[[Page], str]
    foot: str


HOCR = TextFormat(media_type="text/html", suffix=".hocr", head=hocr.head, page=hocr.page, foot=hocr.FOOT)
ALTO = TextFormat(media_type="application/xml", suffix=".alto.xml", head=alto.head, page=alto.page, foot=alto.FOOT)
MARKDOWN = TextFormat(media_type="text/markdown", suffix=".md", head=markdown.head, page=markdown.page, foot="")
