"""The cost that Daira adds to a route, as requests a second compared with bare FastAPI routes.

Run: ./daira bench api [--rounds 5] [--seconds 3]

`GET /v1/jobs/{id}` is compared with a route that does the same clamped read. An upload of 20 kB is compared with one
that writes the file and commits two rows, and with one that also waits for the disk (fsync), as Daira does. Each is a
process of its own in the role `web`, on the same pool, tables and server. They take turns round by round, so that other
load on the machine affects all of them, and the jobs that one has queued are marked done before the next. Figures are
medians of requests a second, their ratio to the bare route, and the server's own CPU time for a request.
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

from app.adapters.postgres.engine import administer
from benchmarks.web.load import as_fast_as_answered, get, post_file
from benchmarks.web.profile import profiled
from benchmarks.web.servers import Server, bare, daira
from tests.support.databases import Cloned, Databases

CONNECTIONS = 8
SIZE = 20_000

Next = Callable[[], bytes | None]


@dataclass(kw_only=True)
class Contestant:
    name: str
    server: Server
    request: Callable[[], bytes]
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Milliseconds of the server's CPU time for a request."""

    async def take_turn(self, seconds: float) -> None:
        end, before = time.perf_counter() + seconds, self.server.cpu_seconds()
        answers, took = await as_fast_as_answered(
            self.server.url, lambda: self.request() if time.perf_counter() < end else None, connections=CONNECTIONS
        )
        self.rates.append(answers.count / took)
        self.cpu.append((self.server.cpu_seconds() - before) / answers.count * 1000)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=3, help="seconds of each turn")
    arguments.add_argument("--only", choices=["read", "upload"], help="measure only reading or only uploading")
    arguments.add_argument(
        "--profile", action="store_true", help="also show which code Daira's time is spent in (needs py-spy)"
    )
    options = arguments.parse_args()
    databases = Databases()
    await databases.start()
    try:
        async with databases.clone() as cloned:
            with tempfile.TemporaryDirectory(prefix="daira-bench-") as folder, _served(cloned, Path(folder)) as served:
                for what, contestants in (await _contests(served)).items():
                    if options.only in {None, what}:
                        await _compare(what, contestants, cloned, rounds=options.rounds, seconds=options.seconds)
                        if options.profile:
                            await _profile(contestants[-1])
    finally:
        databases.close()


@contextmanager
def _served(cloned: Cloned, folder: Path) -> Iterator[dict[str, Server]]:
    with ExitStack() as stack:
        yield {
            "daira": stack.enter_context(daira(cloned, folder, DAIRA_ROLE="web")),
            "bare": stack.enter_context(bare(cloned, folder, durable=False)),
            "durable": stack.enter_context(bare(cloned, folder, durable=True)),
        }


async def _contests(served: dict[str, Server]) -> dict[str, list[Contestant]]:
    ours = served["daira"]
    given = iter([post_file("/v1/documents", _text(), key=ours.key)])
    answers, _ = await as_fast_as_answered(ours.url, lambda: next(given, None), connections=1, keep_bodies=True)
    path = f"/v1/jobs/{json.loads(answers.bodies[0])['jobs'][0]['id']}"

    def read() -> bytes:
        return get(path, key=ours.key)

    def upload() -> bytes:
        return post_file("/v1/documents", _text(), key=ours.key)

    return {
        "read": [
            Contestant(name="bare route", server=served["bare"], request=read),
            Contestant(name="GET /v1/jobs/{id}", server=ours, request=read),
        ],
        "upload": [
            Contestant(name="bare route", server=served["bare"], request=upload),
            Contestant(name="bare route with fsync", server=served["durable"], request=upload),
            Contestant(name="POST /v1/documents", server=ours, request=upload),
        ],
    }


async def _compare(what: str, contestants: list[Contestant], cloned: Cloned, *, rounds: int, seconds: float) -> None:
    for n in range(rounds + 1):
        print(f"\r{what}: round {n} of {rounds} ", end="", file=sys.stderr)
        for contestant in contestants:
            await _work_off(cloned)
            await contestant.take_turn(seconds)
            if n == 0:  # to warm up
                contestant.rates.clear()
                contestant.cpu.clear()
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    first = contestants[0]
    print(f"{what:<24} {'median/s':>9} {'least':>7} {'most':>7} {'ratio':>6} {'CPU ms':>7}")
    for each in contestants:
        ratio, cpu = each.rate / first.rate, statistics.median(each.cpu)
        rates = f"{each.rate:>9.0f} {min(each.rates):>7.0f} {max(each.rates):>7.0f}"
        print(f"{each.name:<24} {rates} {ratio:>6.2f} {cpu:>7.2f}")


async def _work_off(cloned: Cloned) -> None:
    """Mark uploaded jobs as done, as if workers had kept up: a tenant's live jobs are counted with each upload."""
    async with administer(cloned.admin_url) as admin:
        await admin.execute("update daira.jobs set state = 'done', finished_at = now() where state = 'queued'")
        await admin.execute("delete from daira.doorbells")
        await admin.execute("vacuum analyze daira.jobs, daira.doorbells")


async def _profile(contestant: Contestant) -> None:
    seconds = 10
    shares = await profiled(contestant.server.pid, contestant.take_turn(seconds + 1), seconds=seconds)
    print(f"\n{contestant.name}: where its time goes")
    for part, share in shares.items():
        print(f"{share:>6.1%}  {part}")
    print()


def _text() -> bytes:
    """A new text each time, because the same bytes would be an existing document."""
    return os.urandom(SIZE // 2).hex().encode()


if __name__ == "__main__":
    asyncio.run(main())
