"""The rules that keep rooms apart: who may import whom, open a connection, commit, or read the environment."""

import ast
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]
APP = ROOT / "app"
FILES = sorted(APP.rglob("*.py"))

WITH_A_REASON: dict[str, str] = {
    "app/bootstrap.py": "all parts of the service are put together in one place",
    "app/adapters/memory/documents.py": "documents, pages, kept answers and search share their rows",
    "app/adapters/memory/leases.py": "leases and sweeps share their transitions",
    "app/adapters/memory/jobs.py": "jobs, their changes and webhooks share their rows",
    "app/adapters/postgres/jobs.py": "statements on jobs and the rows that they give",
    "app/services/purging.py": "the story of a purge, with its bounds and its report",
    "app/services/uploads.py": "the story of an upload, with the stream that it measures",
    "app/web/routes/documents.py": "one resource, each route with its answers declared",
    "app/cli/upload/sender.py": "senders and the back-off that they share",
    "app/adapters/postgres/tables.py": "all tables stand together, as Alembic compares them",
    "app/settings.py": "all settings are to be found in one place",
    "app/cli/serving.py": "`up` and `serve` share the server, its port and its end",
    "app/web/errors.py": "all errors of the API, with their statuses, codes and texts",
    "app/services/execution.py": "the story of an attempt, from the claim to the settled row",
    "app/worker/consumer.py": "the story of a doorbell, from the queue to a running job",
    "app/wiring.py": "the only place that knows which class stands behind a setting",
}
"""Files of `app/` with more than 250 lines, and why."""

LONG, CAP = 250, 400
"""Lines."""

ENGINE = ("app/adapters/postgres/engine.py", "app/adapters/postgres/servers.py")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def where(found: Callable[[ast.AST], bool], *, allowed: tuple[str, ...] = ()) -> list[str]:
    """Places in `app/` where a syntax node is found, other than in files or folders that are allowed to."""
    return [
        f"{name_of(path)}:{node.lineno}"
        for path in FILES
        if not name_of(path).startswith(allowed)
        for node in nodes(path)
        if found(node)
    ]


@cache
def nodes(path: Path) -> Sequence[ast.expr | ast.stmt]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.expr | ast.stmt)]


def called(node: ast.AST) -> str:
    """`a.b.c` for the call `a.b.c(…)`, or nothing."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def opens_a_connection(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "asyncpg" and any(alias.name in {"connect", "create_pool"} for alias in node.names)
    name = called(node)
    return name.split(".")[-1] in {"create_engine", "create_async_engine", "create_pool"} or name == "asyncpg.connect"


def begins_on_an_engine(node: ast.AST) -> bool:
    return called(node).endswith("engine.begin")


def commits(node: ast.AST) -> bool:
    return called(node).endswith(".commit")


def reads_the_clock(node: ast.AST) -> bool:
    return called(node) in {"datetime.now", "datetime.utcnow", "date.today", "time.time", "time.time_ns"}


WALL_CLOCK = (
    "app/domain/ids.py",  # of a document, a key and a row of usage, none of which is listed by its id
    "app/services/execution.py",  # of spans, which tell people and decide nothing
    "app/services/clocks.py",  # to be compared with the others
    "app/adapters/memory/",  # it is the store's own
)
"""Where this process's wall clock may be read. It may be wrong, so it decides nothing: see docs/clocks.md."""


def reads_the_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(alias.name in {"environ", "environb", "getenv"} for alias in node.names)
    return isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.environb", "os.getenv"}


def test_the_import_contracts_hold(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), cache_dir=str(tmp_path))
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "0 broken" in printed


def test_every_file_begins_by_saying_what_it_is() -> None:
    silent = [name_of(path) for path in FILES if path.name != "__init__.py" and not ast.get_docstring(parse(path))]
    assert silent == []


def test_the_files_of_packages_are_empty() -> None:
    assert [name_of(path) for path in FILES if path.name == "__init__.py" and path.read_text()] == []


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in FILES}
    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_a_long_file_has_a_reason_and_none_is_very_long() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in FILES}
    assert {name: length for name, length in lengths.items() if length > CAP} == {}
    assert {name for name, length in lengths.items() if length > LONG} == set(WITH_A_REASON)


def test_a_process_reads_its_own_clock_only_where_nothing_is_decided_by_it() -> None:
    assert where(reads_the_clock, allowed=WALL_CLOCK) == []
    assert {name for name in WALL_CLOCK if not (ROOT / name).exists()} == set()


def test_only_the_engine_opens_connections() -> None:
    assert where(opens_a_connection, allowed=ENGINE) == []


def test_nobody_commits() -> None:
    assert where(commits) == []


def test_transactions_begin_in_four_files() -> None:
    allowed = tuple(
        f"app/adapters/postgres/{name}.py" for name in ("database", "isolation/checks", "migrations", "isolation/probe")
    )
    assert where(begins_on_an_engine, allowed=allowed) == []


def test_the_environment_is_read_at_the_top_alone() -> None:
    allowed = ("app/__main__.py", "app/settings.py", "app/cli/", "app/embedded/")
    assert where(reads_the_environment, allowed=allowed) == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (opens_a_connection, "sqlalchemy.ext.asyncio.create_async_engine(url)"),
        (opens_a_connection, "await asyncpg.connect(url)"),
        (opens_a_connection, "asyncpg.create_pool(url)"),
        (opens_a_connection, "from asyncpg import connect"),
        (commits, "connection.commit()"),
        (commits, "await self._session.commit()"),
        (begins_on_an_engine, "self._engine.begin()"),
        (begins_on_an_engine, "engine.begin()"),
        (reads_the_environment, "os.environ['A']"),
        (reads_the_environment, "os.getenv('A')"),
        (reads_the_environment, "from os import environ"),
    ],
)
def test_each_rule_finds_what_it_forbids(rule: Callable[[ast.AST], bool], code: str) -> None:
    assert any(rule(node) for node in ast.walk(ast.parse(code)))


@pytest.mark.parametrize("name", ["database", "engine", "isolation/checks", "migrations", "isolation/probe"])
def test_the_files_that_are_allowed_to_are_there(name: str) -> None:
    assert APP / "adapters" / "postgres" / f"{name}.py" in FILES


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())
