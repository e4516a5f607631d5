"""Accuracy and speed of reading pages: Daira, the plain `tesseract` command and OCRmyPDF on the same pages in one run.

Run: ./daira bench ocr              pages set in type on the spot: fonts, sizes, tables, columns, wear
     ./daira bench ocr FOLDER …     pictures (x.png, x.tif, x.jpg) with their true text (x.txt) in the same folder

word F1    words found and not missed, in any order; words are separated by white space, and case counts unless the
           truth has none
bare F1    the same with runs of letters and digits, without the punctuation between them
CER        wrong characters as a share of the truth's, in the order as read; and in any order, word by word
CPU        seconds a page of all processes that took part; Daira's reader stays, commands start anew for each page
overhead   the same pages by Daira's recognizer and by its engine only in a loop; by one reader process and by two

Prints tables, and writes every figure as JSON and a plot as SVG. Tesseract is the system's (apt install tesseract-ocr);
OCRmyPDF is installed into an environment of its own, kept in the user's cache folder. Linux only.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.race import peers
from benchmarks.race.record import busy, machine
from benchmarks.read.figures import Reading, targets
from benchmarks.read.overhead import Overhead, measure
from benchmarks.read.pages import Sample, found, made, scan_of
from benchmarks.read.readers import Missing, Reader, opened
from benchmarks.read.report import record, show
from benchmarks.read.score import score

ROOT = Path(__file__).resolve().parent.parent
PLOT = Path(peers.__file__).parent / "plot.py"
READERS = ("daira tesseract", "daira auto", "daira rapidocr", "tesseract", "ocrmypdf")
FONTS = ("DejaVuSerif.ttf", "DejaVuSansMono.ttf")
"""Fonts that come with matplotlib."""


async def main(options: argparse.Namespace) -> None:
    notes = busy()
    environment = _environment(notes)
    with tempfile.TemporaryDirectory() as made_here, _progress() as progress:
        folder = Path(made_here)
        samples = [sample for each in options.folders for sample in found(each)]
        if not options.folders:
            samples = made(folder, fonts=_fonts(environment), quick=options.quick)
        if not samples:
            sys.exit("ocr: no picture with its text in these folders; name them x.png and x.txt")
        readings = await _read(samples, options.readers, environment, progress=progress, notes=notes)
        overhead = None if options.no_overhead else await _overhead(samples, folder, options, progress=progress)
    reached = list(targets(readings, overhead, made=not options.folders))
    conditions = {"machine": machine(), "notes": notes}
    _tell(readings, overhead, conditions, reached=reached, out=options.out, environment=environment)


def _environment(notes: list[str]) -> Path | None:
    try:
        return peers.provide(None, requirements=ROOT / "requirements" / "readers.txt")
    except (subprocess.CalledProcessError, OSError):
        notes.append("OCRmyPDF and matplotlib could not be installed: no figures of the one, no plot by the other.")
        return None


def _fonts(environment: Path | None) -> list[Path]:
    if environment is None:
        return []
    folders = environment.parent.parent.glob("lib/python3.*/site-packages/matplotlib/mpl-data/fonts/ttf")
    return [folder / name for folder in folders for name in FONTS]


async def _read(
    samples: Sequence[Sample],
    names: Sequence[str],
    environment: Path | None,
    *,
    progress: Progress,
    notes: list[str],
) -> list[Reading]:
    readings = []
    for name in names:
        try:
            async with opened(name, environment=environment) as reader:
                readings += await _all_by(reader, samples, progress=progress)
        except Missing as missing:
            notes.append(f"{name} did not take part: {missing}")
    return readings


async def _all_by(reader: Reader, samples: Sequence[Sample], *, progress: Progress) -> list[Reading]:
    readings = []
    if not progress.console.is_terminal:
        progress.console.print(f"{reader.name}: {len(samples)} pages", highlight=False)
    for sample in progress.track(samples, description=reader.name):
        read = await reader.read(sample.file)
        readings.append(Reading(reader=reader.name, sample=sample, read=read, score=score(read.text, sample.text)))
    return readings


async def _overhead(
    samples: Sequence[Sample], folder: Path, options: argparse.Namespace, *, progress: Progress
) -> Overhead:
    pages = []
    for index in range(options.pages):
        with Image.open(samples[index % len(samples)].file) as picture:
            pages.append(picture.convert("L"))
    bar = progress.add_task("overhead", total=None)
    overhead = await measure(scan_of(pages, folder / "scan.tif"), pages=len(pages), rounds=options.rounds)
    progress.remove_task(bar)
    return overhead


def _tell(
    readings: Sequence[Reading],
    overhead: Overhead | None,
    conditions: dict[str, Any],
    *,
    reached: Sequence[Any],
    out: Path,
    environment: Path | None,
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    file, plot = out / "ocr.json", out / "ocr.svg"
    file.write_text(json.dumps(record(readings, overhead, reached, conditions), indent=1) + "\n")
    show(readings, overhead, reached, conditions)
    print(f"Written: {file}")
    if environment is not None:
        subprocess.run([environment, "-P", PLOT, file, plot], check=True)
        print(f"Written: {plot}")


def _progress() -> Progress:
    # Standard output is for the result, so progress goes to standard error.
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))


def _some(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in READERS]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return names


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="daira bench ocr", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("folders", type=Path, nargs="*", metavar="FOLDER", help="folder of pictures with their texts")
    add("--readers", type=_some, default=list(READERS), metavar="A,B", help=f"readers to compare: {', '.join(READERS)}")
    add("--quick", action="store_true", help="fewer pages of our own")
    add("--pages", type=int, default=24, help="pages of the scan that shows the overhead")
    add("--rounds", type=int, default=3, help="rounds of the overhead measurement; the median counts")
    add("--no-overhead", action="store_true", help="measure accuracy and cost only")
    add("--out", type=Path, default=ROOT / "benchmarks" / "results", help="folder for JSON and plot")
    return parser.parse_args()


try:
    asyncio.run(main(parse()))
except KeyboardInterrupt:
    sys.exit("ocr: stopped, nothing was written")
