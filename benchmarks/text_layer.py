"""A born-digital book read by one reader process: CPU seconds of the reader and of its caller.

Run: ./daira bench text_layer [--pages 600] [--words 500]

Both are added up, because they may have to share one core. The reader's start (0.3 s) is not counted.
"""

import argparse
import asyncio
import os
import random
import tempfile
import time
from pathlib import Path

from app.ports.reading import Mode
from app.reading.recognizer import ProcessRecognizer
from tests.support.sample_documents import Sheet, pdf

_LINES = 28
_VOCABULARY = """
the of and to in is that it was for as with on be at by had not are but from or have an they which one you were
committee budget treasurer invoice delivery department annual report between agreement payment
"""


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pages", type=int, default=600)
    arguments.add_argument("--words", type=int, default=500, help="words on each page")
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    print(f"{'round':>6} {'words':>8} {'reader':>8} {'caller':>8} {'sum':>8} {'wall':>8}")
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder, "book.pdf")
        book.write_bytes(_book(options.pages, options.words))  # noqa: ASYNC240 - nothing else waits for this loop
        for number in range(1, options.rounds + 1):
            words, reader, caller, wall = await _read(book)
            print(f"{number:>6} {words:>8} {reader:>8.2f} {caller:>8.2f} {reader + caller:>8.2f} {wall:>8.2f}")


def _book(pages: int, words: int) -> bytes:
    chosen = random.Random(1)  # noqa: S311 - to be repeatable, not secret
    length = -(-words // _LINES)
    return pdf(
        *[
            Sheet(
                lines=tuple(" ".join(chosen.choices(_VOCABULARY.split(), k=length)) for _ in range(_LINES)),
                size=(900, 792),
            )
            for _ in range(pages)
        ]
    )


async def _read(path: Path) -> tuple[int, float, float, float]:
    recognizer = ProcessRecognizer(children=1)
    await recognizer.start()
    [reader] = recognizer._pool._living  # noqa: SLF001 - whom else to ask
    before, caller, started = _used(reader.pid), time.process_time(), time.monotonic()
    words = 0
    async with recognizer.open(path, media_type="application/pdf", language="eng", mode=Mode.AUTO) as file:
        async for page in file.pages():
            words += len(getattr(page, "words", ()))
    figures = (words, _used(reader.pid) - before, time.process_time() - caller, time.monotonic() - started)
    await recognizer.close()
    return figures


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    asyncio.run(main())
