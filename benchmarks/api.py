"""What Daira adds to a route: requests a second beside bare FastAPI routes on the same pool, tables and server.

Run: ./daira bench api [--rounds 5] [--seconds 3]

`GET /v1/jobs/{id}` beside a route that does the same clamped read; an upload of 20 kB beside one that writes the file
and commits two rows, and beside one that also waits for the disk (fsync), as Daira does. Each is a process of its
own in the role `web`; they take turns round by round, so that whatever slows the machine meets all of them. Figures
are medians of requests a second, and their ratio to the bare route.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.web.load import as_fast_as_answered, get, post_file
from benchmarks.web.servers import bare, daira
from tests.support.databases import Cloned, Databases

CONNECTIONS = 8
SIZE = 20_000

Next = Callable[[], bytes | None]


@dataclass(kw_only=True)
class Contestant:
    name: str
    url: str
    request: Callable[[], bytes]
    rates: list[float] = field(default_factory=list)

    async def take_turn(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        answers, took = await as_fast_as_answered(
            self.url, lambda: self.request() if time.perf_counter() < end else None, connections=CONNECTIONS
        )
        self.rates.append(answers.count / took)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=3, help="of each turn")
    arguments.add_argument("--only", choices=["read", "upload"], help="one of the two")
    options = arguments.parse_args()
    databases = Databases()
    await databases.start()
    try:
        async with databases.clone() as cloned:
            with tempfile.TemporaryDirectory(prefix="daira-bench-") as folder, _served(cloned, Path(folder)) as served:
                for what, contestants in (await _contests(served)).items():
                    if options.only in {None, what}:
                        await _compare(what, contestants, rounds=options.rounds, seconds=options.seconds)
    finally:
        databases.close()


@dataclass(frozen=True, kw_only=True)
class Served:
    daira: str
    bare: str
    durable: str
    key: str


@contextmanager
def _served(cloned: Cloned, folder: Path) -> Iterator[Served]:
    with ExitStack() as stack:
        ours = stack.enter_context(daira(cloned, folder, DAIRA_ROLE="web"))
        others = [
            stack.enter_context(bare(cloned, folder, durable=durable, tenant=ours.tenant)) for durable in (False, True)
        ]
        yield Served(daira=ours.url, bare=others[0], durable=others[1], key=ours.key)


async def _contests(served: Served) -> dict[str, list[Contestant]]:
    given = iter([post_file("/v1/documents", _text(), key=served.key)])
    answers, _ = await as_fast_as_answered(served.daira, lambda: next(given, None), connections=1, keep_bodies=True)
    path = f"/v1/jobs/{json.loads(answers.bodies[0])['jobs'][0]['id']}"

    def read() -> bytes:
        return get(path, key=served.key)

    def upload() -> bytes:
        return post_file("/v1/documents", _text(), key=served.key)

    return {
        "read": [
            Contestant(name="bare route", url=served.bare, request=read),
            Contestant(name="GET /v1/jobs/{id}", url=served.daira, request=read),
        ],
        "upload": [
            Contestant(name="bare route", url=served.bare, request=upload),
            Contestant(name="bare route with fsync", url=served.durable, request=upload),
            Contestant(name="POST /v1/documents", url=served.daira, request=upload),
        ],
    }


async def _compare(what: str, contestants: list[Contestant], *, rounds: int, seconds: float) -> None:
    for n in range(rounds + 1):
        print(f"\r{what}: round {n} of {rounds} ", end="", file=sys.stderr)
        for contestant in contestants:
            await contestant.take_turn(seconds)
            if n == 0:  # to warm up
                contestant.rates.clear()
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    first = contestants[0]
    print(f"{what:<24} {'median/s':>9} {'least':>7} {'most':>7} {'ratio':>6}")
    for each in contestants:
        ratio = each.rate / first.rate
        print(f"{each.name:<24} {each.rate:>9.0f} {min(each.rates):>7.0f} {max(each.rates):>7.0f} {ratio:>6.2f}")


def _text() -> bytes:
    """Of its own each time, or it would be a document that is there already."""
    return os.urandom(SIZE // 2).hex().encode()


if __name__ == "__main__":
    asyncio.run(main())
