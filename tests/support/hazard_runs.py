"""Files read one after the other by real readers, each watched: how it ended, how long it took, what it needed."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import DocumentFault
from app.domain.filetypes.types import HEAD, PDF, image_type
from app.handlers.page_drafts import UNREADABLE_AT_FIRST
from app.ports.reading import Mode, UnreadablePage
from app.reading.children.process import ChildFailed
from app.reading.recognizer import ProcessRecognizer
from tests.support.hazards import OUTCOMES

MEBIBYTE = 1024 * 1024
_GLANCE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    outcome: str
    """`done`, the code of a document's fault, or what should never be."""
    detail: str
    seconds: float
    cpu: float
    """Seconds, of the readers."""
    peak: float
    """Greatest resident memory of a reader, in MiB."""


class Hazards:
    """One reader, watched."""

    def __init__(self, recognizer: ProcessRecognizer, *, memory_bytes: int) -> None:
        self._recognizer = recognizer
        self._memory_bytes = memory_bytes
        self._pid = os.getpid()

    async def run(self, path: Path) -> Run:
        with path.open("rb") as file:
            # A name says nothing, but what nobody takes for an image is to be tried as a PDF.
            media_type = image_type(file.read(HEAD)) or PDF
        if path.suffix == ".pdf":
            media_type = PDF
        peaks: dict[int, float] = {}
        used: dict[int, float] = {}
        watch = asyncio.create_task(self._watch(peaks, used))
        before = self._cpu()
        started = time.monotonic()
        try:
            outcome, detail = await self._outcome(path, media_type)
        finally:
            seconds = time.monotonic() - started
            self._glance(peaks, used)
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
        cpu = sum(used.values()) - sum(before.get(pid, 0.0) for pid in used)
        return Run(outcome=outcome, detail=detail, seconds=seconds, cpu=cpu, peak=max(peaks.values(), default=0.0))

    def faults(self, run: Run, *, seconds: float) -> list[str]:
        """What of a run must never be."""
        found = []
        if run.outcome not in OUTCOMES:
            found.append(f"ended as {run.outcome}: {run.detail}")
        if run.seconds > seconds:
            found.append(f"took {run.seconds:.1f} s, of which {run.cpu:.1f} s of CPU")
        if run.peak * MEBIBYTE > self._memory_bytes:
            found.append(f"a reader took {run.peak:.0f} MiB")
        if len(self._pids()) > 1:
            found.append("a reader was left behind")
        if os.getpid() != self._pid:
            found.append("the parent is another")
        return found

    async def _outcome(self, path: Path, media_type: str) -> tuple[str, str]:
        readable, faults = 0, list[DocumentFault]()
        try:
            async with self._recognizer.open(path, media_type=media_type, language="eng", mode=Mode.AUTO) as file:
                async for read in file.pages():
                    if not isinstance(read, UnreadablePage):
                        readable += 1
                        read.text.encode()
                        continue
                    faults.append(read.fault)
                    # As the handler has it.
                    if len(faults) > max(UNREADABLE_AT_FIRST, readable):
                        raise faults[0]
                if faults and not readable:
                    raise faults[0]
                warnings = " ".join(warning.code for warning in file.warnings)
                return "done", f"{readable} of {file.page_count} pages {warnings}".strip()
        except DocumentFault as fault:
            return fault.code, str(fault)
        except ChildFailed as failure:
            return "internal", str(failure)

    async def _watch(self, peaks: dict[int, float], used: dict[int, float]) -> None:
        for pid in self._pids():
            _forget_peak(pid)
        while True:
            self._glance(peaks, used)
            await asyncio.sleep(_GLANCE)

    def _glance(self, peaks: dict[int, float], used: dict[int, float]) -> None:
        for pid, seconds in self._cpu().items():
            used[pid] = max(seconds, used.get(pid, 0.0))
            with suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
                peaks[pid] = max(peak, peaks.get(pid, 0.0))

    def _cpu(self) -> dict[int, float]:
        ticks = os.sysconf("SC_CLK_TCK")
        used = {}
        for pid in self._pids():
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                used[pid] = (int(fields[11]) + int(fields[12])) / ticks
        return used

    def _pids(self) -> list[int]:
        return [child.pid for child in self._recognizer._pool._living]


@asynccontextmanager
async def hazards(*, memory_bytes: int = 1536 * MEBIBYTE) -> AsyncIterator[Hazards]:
    recognizer = ProcessRecognizer(children=1, memory_bytes=memory_bytes)
    await recognizer.start()
    try:
        yield Hazards(recognizer, memory_bytes=memory_bytes)
    finally:
        pids = [child.pid for child in recognizer._pool._living]
        await recognizer.close()
        assert not any(map(_is_there, pids)), "a reader outlived its pool"


def _forget_peak(pid: int) -> None:
    """Of the file before."""
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
