"""What every test may ask for: a database of its own, on a real server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from app.adapters.postgres.engine import PostgresEngine
from tests.support.databases import Cloned, Databases
from tests.support.folders import open_folder

# Structlog's own default draws tracebacks with every local variable: a tenth of a second on the loop under test.
structlog.configure(processors=[structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer()])


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
