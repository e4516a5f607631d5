"""The readers: Daira by its own recognizer, and other programs by their command, each measured separately."""

import asyncio
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from app.domain.errors import DocumentFault
from app.ports.reading import Mode, UnreadablePage
from app.reading.engines import rapidocr
from app.reading.recognizer import ProcessRecognizer

PATIENCE = 600
"""Seconds for one page."""
TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    text: str
    cpu_seconds: float
    """CPU seconds of all processes that took part."""
    seconds: float
    peak_mib: float
    """Resident memory of the largest process."""
    confidence: float | None = None


class Reader(Protocol):
    name: str

    async def read(self, file: Path) -> Read: ...


class Missing(Exception):
    """A program is missing. The message says what to install."""


@asynccontextmanager
async def opened(name: str, *, environment: Path | None) -> AsyncIterator[Reader]:
    """Open a reader by its name. Raises Missing."""
    if not name.startswith("daira"):
        yield Command(name, _found(name, environment))
        return
    engine = name.removeprefix("daira ")
    if engine != "tesseract" and not rapidocr.is_installed():
        raise Missing("pip install 'daira[rapidocr]'")
    recognizer = ProcessRecognizer(children=1, engine=engine, page_timeout=timedelta(seconds=PATIENCE))
    await recognizer.start()
    try:
        yield Daira(name, recognizer)
    finally:
        await recognizer.close()


def _found(name: str, environment: Path | None) -> str:
    # OCRmyPDF needs it as well.
    if not shutil.which("tesseract"):
        raise Missing("on Debian: apt install tesseract-ocr; on macOS: brew install tesseract")
    beside = environment.parent / name if environment is not None else None
    if beside is not None and beside.exists():
        return str(beside)
    if path := shutil.which(name):
        return path
    raise Missing(f"pip install {name}")


class Daira:
    """Daira's reader: a process that stays, as in a worker. Its start is not counted."""

    def __init__(self, name: str, recognizer: ProcessRecognizer) -> None:
        self.name = name
        self._recognizer = recognizer

    async def read(self, file: Path) -> Read:
        [child] = self._recognizer._pool._idle  # noqa: SLF001 - its process is what is measured
        before, own, started = cpu_of(child.pid), time.process_time(), time.monotonic()
        _forget_peak(child.pid)
        text, confidence = "", None
        media_type = TYPES.get(file.suffix.lower(), "image/tiff")
        try:
            async with self._recognizer.open(file, media_type=media_type, language="eng", mode=Mode.FORCE) as opened:
                async for page in opened.pages([1]):
                    if not isinstance(page, UnreadablePage):
                        text, confidence = page.text, page.confidence
        except DocumentFault as fault:
            print(f"{self.name}: {file.name}: {fault}", file=sys.stderr)
        return Read(
            text=text,
            confidence=confidence,
            cpu_seconds=cpu_of(child.pid) - before + time.process_time() - own,
            seconds=time.monotonic() - started,
            peak_mib=_peak_mib(child.pid),
        )


class Command:
    """A command that is started for each page, as it is meant to be used, with one thread."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self._path = path

    async def read(self, file: Path) -> Read:
        return await asyncio.to_thread(self._read, file)

    def _read(self, file: Path) -> Read:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text.txt")
            started = time.monotonic()
            used = _ran([self._path, *self._arguments(file, text)])
            return Read(
                text=text.read_text(errors="replace") if text.exists() else "",
                cpu_seconds=used.ru_utime + used.ru_stime,
                seconds=time.monotonic() - started,
                peak_mib=used.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024),
            )

    def _arguments(self, file: Path, text: Path) -> Sequence[str]:
        if self.name == "tesseract":
            return [str(file), str(text.with_suffix("")), "-l", "eng"]
        # Without Ghostscript, but with every option that helps accuracy.
        made_fit = ["--rotate-pages", "--deskew", "--image-dpi", "200"]
        plain = ["--quiet", "--jobs", "1", "--output-type", "pdf", "--optimize", "0", "-l", "eng"]
        return [*plain, *made_fit, "--sidecar", str(text), str(file), str(text.with_suffix(".pdf"))]


def _ran(command: Sequence[str]) -> resource.struct_rusage:
    """Run a command. Returns the resources that it and its children used."""
    actions = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    path = os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", os.defpath)])
    pid = os.posix_spawn(
        command[0], list(command), {**os.environ, "OMP_THREAD_LIMIT": "1", "PATH": path}, file_actions=actions
    )
    return os.wait4(pid, 0)[2]


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far, in steps of a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in status if line.startswith("VmHWM"))) / 1024
