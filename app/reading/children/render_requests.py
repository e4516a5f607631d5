"""Child-side rendering: streams a page image or a searchable PDF of the open file to the parent."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from PIL import Image
from typing_extensions import Buffer, override

from app.domain.errors import DocumentFault
from app.reading.children import wire
from app.reading.image.file import ImageFile
from app.reading.image.frame import ImageFrame, eight_bit, on_paper
from app.reading.pdf.file import PdfFile
from app.reading.pdf.rendering import resized

if TYPE_CHECKING:
    from app.reading.pdf.searchable import SearchableCopy

REQUESTS = frozenset({"page_image", "copy", "lay", "save"})
_CHUNK = 256 * 1024
_QUICK = 3
"""Level of compression: a third of the default level's time, with a tenth more bytes."""


class RenderRequests:
    """Answers requests for page images and searchable copies. Raises DocumentFault."""

    def __init__(self, answers: BinaryIO) -> None:
        self._out = _ChunkWriter(answers)
        self._copy: SearchableCopy | None = None

    def answer(self, request: wire.Message, *, file: object, path: Path) -> wire.Message:
        if not isinstance(file, PdfFile | ImageFile):
            raise DocumentFault("unsupported", "This type of file has no pages to show.")
        match request["do"], self._copy:
            case "page_image", _:
                self._page_image(file, request["number"], width=request["width"])
            case "copy", _:
                self._copy = _copy_of(file, path)
            case "lay", copy if copy is not None:
                for page in request["pages"]:
                    copy.lay(wire.unpacked_words(page))
            case "save", copy if copy is not None:
                self._copy = None
                with io.BufferedWriter(self._out, _CHUNK) as out:
                    copy.save(out)
            case _:
                raise RuntimeError("No copy was begun")
        return {}

    def clear(self) -> None:
        self._copy = None

    def _page_image(self, file: PdfFile | ImageFile, number: int, *, width: int) -> None:
        if not 1 <= number <= file.page_count:
            raise DocumentFault("no_such_page", f"The document has {file.page_count} pages.")
        if isinstance(file, PdfFile):
            image = file.page_image(number, width=width)
        else:
            with file.frame(number) as frame:
                image = _shown(frame, width=width)
        with io.BufferedWriter(self._out, _CHUNK) as out:
            image.save(out, "PNG", compress_level=_QUICK)


def _shown(frame: ImageFrame, *, width: int) -> Image.Image:
    image = frame.displayed()
    if image.has_transparency_data:
        image = on_paper(image)
    elif image.mode.startswith(("I", "F")):
        image = eight_bit(image)
    return resized(image, ratio=frame.size[1] / frame.size[0], width=width)


def _copy_of(file: PdfFile | ImageFile, path: Path) -> "SearchableCopy":
    # Imported on demand: loading takes a tenth of a second and memory, which children that only read don't need.
    from app.reading.pdf.searchable import ImageCopy, PdfCopy

    if isinstance(file, ImageFile):
        return ImageCopy(file)
    return PdfCopy(path if file.repaired is None else io.BytesIO(file.repaired), page_count=file.page_count)


class _ChunkWriter(io.RawIOBase):
    """A raw stream of chunks to the parent. Closing a writer on it leaves it open for the next."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, chunk: Buffer, /) -> int:
        content = bytes(chunk)
        self._answers.write(wire.frame_bytes(content))
        return len(content)

    @override
    def close(self) -> None: ...
