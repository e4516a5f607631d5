"""The commands of a competitor's program, one process each. Uses only the standard library: peers import it as well.

describe             a description of itself, as JSON
install DSN          makes its schema with the product's own installer
work DSN SETTING     a worker until standard input ends; with RACE_ECHO it reports when each handler started
add DSN CONNECTIONS  a client that carries out orders, one line of JSON each, until standard input ends
"""

import asyncio
import json
import os
import random
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any, Protocol

Setting = Mapping[str, Any]
Started = Callable[[int], None]
"""Called with a job's number as the first act of its handler."""

AT_ONCE = 1_000
"""Jobs in one call of a product's bulk interface."""


@dataclass(frozen=True, kw_only=True)
class About:
    name: str
    packages: Sequence[str]
    """The packages whose versions are reported."""
    settings: Sequence[Setting]
    """The settings to try in turn, the likeliest first; the best counts. Each has a `label`."""
    settled: str
    """SQL for the number of jobs that ended since `forget`."""
    forget: str
    bury: str = ""
    """SQL that adds $1 queued jobs that are not due for a day."""
    bulk: str = ""
    """A description of the bulk interface; empty where there is none."""
    notes: Sequence[str] = ()
    measures: Sequence[str] = ("drain", "backlog", "enqueue", "pickup", "idle")


class Adder(Protocol):
    """Adds jobs over several connections. They are due at once, and the worker is woken."""

    async def add(self, number: int, *, connection: int) -> None:
        """Add one job in a transaction of its own. Only this caller uses `connection`."""
        ...

    async def add_many(self, numbers: Sequence[int]) -> None:
        """Add jobs in one call."""
        ...

    async def preload(self, numbers: Sequence[int]) -> None:
        """Add jobs as fast as possible; this is not measured."""
        for start in range(0, len(numbers), AT_ONCE):
            await self.add_many(numbers[start : start + AT_ONCE])


class Program(Protocol):
    about: About

    @abstractmethod
    async def install(self, dsn: str) -> None: ...

    @abstractmethod
    async def work(self, dsn: str, setting: Setting, started: Started) -> None:
        """Run a worker until it is cancelled."""

    @abstractmethod
    def open_adder(self, dsn: str, *, connections: int) -> AbstractAsyncContextManager[Adder]: ...


@dataclass(frozen=True, kw_only=True)
class Order:
    do: str
    """The order: preload, one_by_one, bulk or pickup."""
    count: int
    connections: int = 1
    seconds: float = 60
    """Seconds after which the order stops."""
    gap_ms: Sequence[int] = field(default_factory=lambda: (20, 80))


def answer(program: Program, run: Callable[[Any], Any] = asyncio.run) -> None:
    """The main function of a program; `run` is the event loop that it recommends."""
    match sys.argv[1:]:
        case ["describe"]:
            versions = {package: version(package) for package in program.about.packages}
            python = ".".join(map(str, sys.version_info[:3]))
            _say({**asdict(program.about), "versions": versions, "python": python})
        case ["install", dsn]:
            run(program.install(dsn))
        case ["work", dsn, setting]:
            run(_work(program, dsn, json.loads(setting)))
        case ["add", dsn, connections]:
            run(_add(program, dsn, int(connections)))
        case _:
            sys.exit(__doc__)


async def _work(program: Program, dsn: str, setting: Setting) -> None:
    work = asyncio.ensure_future(program.work(dsn, setting, _echo if os.environ.get("RACE_ECHO") else _hush))
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        await work
        sys.exit("the worker ended unexpectedly")
    work.cancel()
    await asyncio.wait({work}, timeout=5)
    sys.stdout.flush()
    # Threads and shielded tasks of a library are not waited for.
    os._exit(0)


def _echo(number: int) -> None:
    at = time.monotonic_ns()
    sys.stdout.write(f"{number} {at}\n")
    sys.stdout.flush()


def _hush(_number: int) -> None:
    return


async def _add(program: Program, dsn: str, connections: int) -> None:
    async with program.open_adder(dsn, connections=connections) as adder:
        numbers = _Numbers()
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = Order(**json.loads(line))
            _say(await _ORDERS[order.do](adder, numbers, order))


class _Numbers:
    """Numbers for jobs, unique for the life of the client."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> range:
        taken = range(self._next, self._next + count)
        self._next += count
        return taken


async def _preload(adder: Adder, numbers: _Numbers, order: Order) -> object:
    await adder.preload(numbers.take(order.count))
    return {}


async def _one_by_one(adder: Adder, numbers: _Numbers, order: Order) -> object:
    left = iter(numbers.take(order.count))
    times: list[float] = []
    deadline = time.monotonic() + order.seconds

    async def repeat(connection: int) -> None:
        for number in left:
            before = time.monotonic()
            await adder.add(number, connection=connection)
            times.append(time.monotonic() - before)
            if time.monotonic() > deadline:
                return

    before = time.monotonic()
    await asyncio.gather(*(repeat(connection) for connection in range(order.connections)))
    return {"count": len(times), "seconds": time.monotonic() - before, "each_ms": [1e3 * each for each in times]}


async def _bulk(adder: Adder, numbers: _Numbers, order: Order) -> object:
    left = numbers.take(order.count)
    before, done = time.monotonic(), 0
    while done < len(left) and time.monotonic() - before < order.seconds:
        await adder.add_many(left[done : done + AT_ONCE])
        done = min(done + AT_ONCE, len(left))
    return {"count": done, "seconds": time.monotonic() - before}


async def _pickup(adder: Adder, numbers: _Numbers, order: Order) -> object:
    """The time just before each call. CLOCK_MONOTONIC is one clock for all processes of a machine."""
    sent: dict[int, int] = {}
    calls: list[float] = []
    for number in numbers.take(order.count):
        await asyncio.sleep(random.uniform(*order.gap_ms) / 1e3)  # noqa: S311 - a gap guards nothing
        sent[number] = time.monotonic_ns()
        await adder.add(number, connection=0)
        calls.append((time.monotonic_ns() - sent[number]) / 1e6)
    return {"sent": list(sent.items()), "calls_ms": calls}


_ORDERS = {"preload": _preload, "one_by_one": _one_by_one, "bulk": _bulk, "pickup": _pickup}


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()
