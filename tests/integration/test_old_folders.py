"""A data folder of another version: each command that opens it says what is wrong and what to do, in one line."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.adapters.postgres.engine import administer
from app.adapters.postgres.isolation.roles import OWNER
from app.embedded.server import EmbeddedPostgres
from tests.support.folders import open_folder
from tests.support.service import run, up, using, wait_until

COMMANDS = (("up", "--port", "0"), ("migrate",), ("doctor",), ("tenant", "list"))


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    with open_folder() as folder:
        with up(folder / "data"):
            pass
        yield folder / "data"
        wait_until(lambda: not using(folder / "data"), seconds=30)


@pytest.mark.parametrize(
    ("revision", "advice"),
    [
        ("20261130_0900", "choose another folder with --data-dir or DAIRA_DATA_DIR, or move {data} away"),
        ("20990101_0000", "run the version that made it"),
    ],
)
def test_a_folder_of_another_version_is_named_with_what_to_do_and_left_as_it_is(
    data: Path, revision: str, advice: str
) -> None:
    _on_server(data, "update daira.alembic_version set version_num = $1", revision)
    for arguments in COMMANDS:
        done = run(*arguments, cwd=data.parent, DAIRA_DATA_DIR=str(data))
        assert done.returncode == 1
        assert f"daira: the schema is at {revision}, " in done.stderr
        assert done.stderr.rstrip().endswith(advice.format(data=data))
        assert "Traceback" not in done.stdout + done.stderr
    assert _on_server(data, "select version_num from daira.alembic_version") == revision


def _on_server(data: Path, statement: str, *values: str) -> object:
    server = EmbeddedPostgres(data / "postgres", grace=timedelta())
    server.start()
    try:
        return asyncio.run(_answer(server.url(user=OWNER, database="daira"), statement, *values))
    finally:
        server.close()


async def _answer(url: str, statement: str, *values: str) -> object:
    async with administer(url) as owner:
        return await owner.fetchval(statement, *values)
