"""What every test may ask for: a database of its own, on a real server. And how the suite is run and reported."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from app.adapters.postgres.engine import PostgresEngine
from tests.support.databases import Cloned, Databases
from tests.support.folders import open_folder
from tests.support.suite import QUICK, folders_left_out, longest_first, markers_left_out, workers

# Structlog's own default draws tracebacks with every local variable: a tenth of a second on the loop under test.
structlog.configure(processors=[structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer()])

LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="what finds most mistakes within a minute or so")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter[str]()
    # A shell's background job ignores Ctrl-C, and so would all programs that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.quick and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args[:] = QUICK


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return workers(quick=config.option.quick)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        longest_first(items)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    if items:
        items[0].config.stash[LEFT_OUT].update(markers_left_out(items, items[0].config.option.markexpr))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        left_out = session.config.stash[LEFT_OUT]
        session.config.workeroutput["left_out"] = dict(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    # Each process has collected the same tests.
    node.config.stash[LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    commands = dict(line.split(": ", 1) for line in config.getini("markers"))
    lines = [f"{count} {name}: {commands[name]}" for name, count in config.stash[LEFT_OUT].items() if name in commands]
    if config.option.quick:
        lines += folders_left_out()
    if lines:
        terminalreporter.section("left out", bold=True)
        terminalreporter.write("\n".join([*lines, ""]))


@pytest.fixture
def folder() -> Iterator[Path]:
    """Like tmp_path, but anybody may pass: root's Postgres runs as somebody else."""
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    databases = Databases()
    asyncio.run(databases.start())
    yield databases
    databases.close()


@pytest.fixture
async def cloned(databases: Databases) -> AsyncIterator[Cloned]:
    async with databases.clone() as cloned:
        yield cloned


@pytest.fixture
async def engine(cloned: Cloned) -> AsyncIterator[PostgresEngine]:
    """A pool as the application has it; at the end no connection is out, and none is idle in a transaction."""
    engine = PostgresEngine(cloned.app_url, pool_size=10, name="test")
    yield engine
    assert engine.checked_out() == 0
    await engine.close()
