"""The latency of `GET /v1/jobs/{id}` at a steady rate, idle and while uploads are sent and processed.

Run: ./daira bench latency [--uploads 500] [--rate 50]

Figures are milliseconds, each request counted from the time when it was due: idle, while the uploads (a drawn page
each, read by Tesseract) are sent, and while they are processed. Once with web and worker as two processes, the worker
pinned to one processor; once with the role `all`. The ratio is to the idle figure of the same setting.
"""

import argparse
import asyncio
import io
import json
import sys
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
from PIL.PngImagePlugin import PngInfo

from app.adapters.postgres.engine import administer
from benchmarks.web.load import Answers, as_fast_as_answered, at_a_pace, get, post_file
from benchmarks.web.servers import Server, daira
from tests.support.databases import Cloned, Databases
from tests.support.sample_documents import SENTENCE, drawn

SETTINGS = ("separate", "all")


@dataclass(frozen=True, kw_only=True)
class Options:
    uploads: int
    rate: float
    idle: float


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--uploads", type=int, default=500)
    arguments.add_argument("--rate", type=float, default=50, help="requests a second")
    arguments.add_argument("--idle", type=float, default=20, help="seconds of the idle measurement")
    arguments.add_argument("--only", choices=SETTINGS)
    given = arguments.parse_args()
    options = Options(uploads=given.uploads, rate=given.rate, idle=given.idle)
    databases = Databases()
    await databases.start()
    print(f"{'':<24} {'requests':>8} {'p50':>7} {'p95':>7} {'p99':>7} {'ratio p99':>9}")
    try:
        for setting in SETTINGS:
            if given.only in {None, setting}:
                async with databases.clone() as cloned:
                    await _measure(cloned, setting, options)
    finally:
        databases.close()


async def _measure(cloned: Cloned, setting: str, options: Options) -> None:
    with tempfile.TemporaryDirectory(prefix="daira-bench-") as folder, _served(cloned, Path(folder), setting) as web:
        given = iter([post_file("/v1/documents", _page(0), key=web.key)])
        answers, _ = await as_fast_as_answered(web.url, lambda: next(given, None), connections=1, keep_bodies=True)
        watched = get(f"/v1/jobs/{json.loads(answers.bodies[0])['jobs'][0]['id']}", key=web.key)
        async with administer(cloned.admin_url) as admin:
            await _drained(admin, of=1)
            idle = await _paced(web, watched, options, during=asyncio.sleep(options.idle))
            print(f"{f'{setting}: idle':<24} {_row(idle)}", flush=True)
            phases = {
                "sent": _sent(web, uploads=options.uploads),
                "worked off": _drained(admin, of=options.uploads + 1),
            }
            for phase, during in phases.items():
                busy = await _paced(web, watched, options, during=during)
                ratio = busy.percentile(0.99) / idle.percentile(0.99)
                print(f"{f'{setting}: {phase}':<24} {_row(busy)} {ratio:>9.2f}", flush=True)


@contextmanager
def _served(cloned: Cloned, folder: Path, setting: str) -> Iterator[Server]:
    with ExitStack() as stack:
        if setting == "all":
            yield stack.enter_context(daira(cloned, folder, DAIRA_ROLE="all", DAIRA_LANES="ocr=1"))
        else:
            web = stack.enter_context(daira(cloned, folder, DAIRA_ROLE="web"))
            stack.enter_context(daira(cloned, folder, core=0, DAIRA_ROLE="worker", DAIRA_LANES="ocr=1"))
            yield web


async def _paced(web: Server, request: bytes, options: Options, *, during: Coroutine[Any, Any, None]) -> Answers:
    until = asyncio.Event()
    asking = asyncio.create_task(at_a_pace(web.url, request, rate=options.rate, until=until))
    try:
        await during
    finally:
        until.set()
    return await asking


async def _sent(web: Server, *, uploads: int) -> None:
    """Send the uploads over two connections, as quickly as they are accepted."""
    requests = iter([post_file("/v1/documents", _page(n), key=web.key) for n in range(1, uploads + 1)])
    await as_fast_as_answered(web.url, lambda: next(requests, None), connections=2)


async def _drained(admin: asyncpg.Connection, *, of: int) -> None:
    done = 0
    while done < of:
        await asyncio.sleep(0.5)
        done = await admin.fetchval("select count(*) from daira.jobs where state = 'done'")
        print(f"\r{done} of {of} read ", end="", file=sys.stderr)
        if failed := await admin.fetchval("select count(*) from daira.jobs where state in ('failed', 'cancelled')"):
            raise SystemExit(f"{failed} jobs failed")
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr)


def _page(n: int) -> bytes:
    """The same page, each time in another file."""
    info = PngInfo()
    info.add_text("Number", str(n))
    out = io.BytesIO()
    PAGE.save(out, "PNG", pnginfo=info)
    return out.getvalue()


PAGE = drawn(SENTENCE, SENTENCE, "Yours faithfully")


def _row(answers: Answers) -> str:
    p50, p95, p99 = (answers.percentile(share) for share in (0.5, 0.95, 0.99))
    return f"{answers.count:>8} {p50:>7.1f} {p95:>7.1f} {p99:>7.1f}"


if __name__ == "__main__":
    asyncio.run(main())
