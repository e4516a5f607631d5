"""The child process: it opens files and reads pages on request, and may crash on either.

All code that touches a user's bytes runs here. It handles one request at a time. An answer is `fault` (the file is to
blame), `error` (Daira is to blame) or the result.
"""

import gc
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from PIL import Image, ImageDraw

from app.domain.errors import DocumentFault
from app.domain.filetypes.types import IMAGES, PDF
from app.domain.pages import Page
from app.domain.warnings import DocumentWarning
from app.ports.reading import Mode
from app.reading.children import wire
from app.reading.children.render_requests import REQUESTS, RenderRequests
from app.reading.engine import OcrEngine
from app.reading.engines.choose import NoEngine, open_engine
from app.reading.engines.fallback import FallbackEngine
from app.reading.faults import RecognitionNeeded, too_many_pages
from app.reading.image.file import ImageFile
from app.reading.pdf.file import PdfFile
from app.reading.sandbox import CpuTimeLimit, allow_cpu, enter_sandbox

YIELDS_TO_OTHERS = 10
"""Steps of niceness of a reader that does OCR."""


class ReadableFile(Protocol):
    """Reads the pages of one file that is open in the child."""

    @property
    def page_count(self) -> int: ...

    @property
    def warnings(self) -> Sequence[DocumentWarning]: ...

    def read(self, number: int, *, mode: Mode) -> Page: ...

    def close(self) -> None: ...


class RequestHandler:
    """Answers the parent's requests; holds the one file that is open."""

    def __init__(
        self,
        *,
        engine: OcrEngine,
        recognition: bool,
        cpu_limit: CpuTimeLimit,
        rendering: RenderRequests,
        dpi: int,
        max_pages: int,
    ) -> None:
        """Without `recognition` no page is read by OCR; the engine then reads samples of fonts only."""
        self._engine = engine if recognition else NoEngine()
        self._font_engine = engine
        self._cpu_limit = cpu_limit
        self._rendering = rendering
        self._dpi = dpi
        self._max_pages = max_pages
        self._file: ReadableFile | None = None
        self._path = Path()

    def answer(self, request: wire.Message) -> wire.Message:
        match request["do"]:
            case "open":
                return self._open(Path(request["path"]), media_type=request["media_type"], language=request["language"])
            case "page":
                return self._page(request["number"], mode=Mode(request["mode"]))
            case "check":
                return self._check(language=request["language"])
            case do if do in REQUESTS:
                return self._rendering.answer(request, file=self._open_file(), path=self._path)
            case _:
                self._close()
                return {}

    def _open(self, path: Path, *, media_type: str, language: str) -> wire.Message:
        self._close()
        if path.stat().st_size == 0:
            raise DocumentFault("empty", "The file is empty: nothing to read.")
        file = self._opened(path, media_type=media_type, language=language)
        if file.page_count > self._max_pages:
            file.close()
            raise too_many_pages(self._max_pages)
        self._file, self._path = file, path
        return {
            "page_count": file.page_count,
            "warnings": wire.packed_warnings(file.warnings),
            # Text formats are read whole when opened: opening them in another child would only cost time.
            "shared": media_type == PDF or media_type in IMAGES,
        }

    def _opened(self, path: Path, *, media_type: str, language: str) -> ReadableFile:
        if media_type == PDF:
            return PdfFile(
                path,
                engine=self._engine,
                font_engine=self._font_engine,
                cpu_limit=self._cpu_limit,
                language=language,
                dpi=self._dpi,
            )
        if media_type in IMAGES:
            return ImageFile(path, engine=self._engine, language=language, max_pages=self._max_pages)
        # Imported on demand, because most children never read such a file.
        from app.reading.office.file import TextFile

        return TextFile(path, media_type=media_type, language=language, max_pages=self._max_pages)

    def _page(self, number: int, *, mode: Mode) -> wire.Message:
        try:
            return {"page": wire.packed_words(self._open_file().read(number, mode=mode))}
        except RecognitionNeeded:
            return {"recognition": True}

    def _check(self, *, language: str) -> wire.Message:
        """Read a picture of Daira's own, so that whatever fails is the installation's fault."""
        picture = Image.new("L", (400, 100), 255)
        ImageDraw.Draw(picture).text((20, 30), "Installed", fill=0, font_size=32)
        self._engine.words(picture, language=language, dpi=150)
        if isinstance(self._engine, FallbackEngine):
            self._engine.second()
        return {}

    def _open_file(self) -> ReadableFile:
        if self._file is None:
            raise RuntimeError("No file is open")
        return self._file

    def _close(self) -> None:
        self._rendering.clear()
        file, self._file = self._file, None
        if file is not None:
            file.close()


def main() -> None:
    requests, answers = wire.private_pipes()
    setup = json.loads(sys.argv[1])
    if setup["recognition"]:
        # OCR takes a core for seconds a page. Whatever takes milliseconds on this machine goes first.
        os.nice(YIELDS_TO_OTHERS)
    enter_sandbox(parent=setup["parent"], memory_bytes=setup["memory_bytes"])
    engine = open_engine(setup["engine"], tessdata=Path(setup["tessdata"]), warm=setup["warm"])
    handler = RequestHandler(
        engine=engine,
        recognition=setup["recognition"],
        cpu_limit=CpuTimeLimit(setup["pdf_cpu_seconds"]),
        rendering=RenderRequests(answers),
        dpi=setup["dpi"],
        max_pages=setup["max_pages"],
    )
    wire.send(answers, {"ready": True})
    # No object so far is garbage, and a page has thousands of words, none of them in a cycle.
    gc.freeze()
    gc.set_threshold(100_000)
    while (request := wire.read(requests)) is not None:
        allow_cpu(setup["cpu_seconds"])
        wire.send(answers, _guarded(handler, request))


def _guarded(handler: RequestHandler, request: wire.Message) -> wire.Message:
    try:
        return handler.answer(request)
    except DocumentFault as fault:
        return {"fault": fault.code, "message": str(fault)}
    except MemoryError:
        return {"fault": "too_large", "message": "A page takes too much memory: scale it down or split the file."}
    except Exception as error:  # noqa: BLE001 - the boundary: the parent has to learn of any error
        # The place and not the message, because the message of an unforeseen exception may quote the document.
        last = traceback.extract_tb(error.__traceback__)[-1]
        return {"error": f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno} ({last.name})"}


if __name__ == "__main__":
    main()
