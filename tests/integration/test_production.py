"""Production refuses to start on anything that could lose work or leak a tenant, and names all of it at once."""

import json
import socket
from pathlib import Path
from unittest.mock import patch

import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.bootstrap import open_runtime
from app.domain.ids import uuid7
from app.settings import Role, Settings
from app.telemetry import Metrics
from app.wiring import connection_budget
from tests.support.databases import Cloned
from tests.support.service import run

PRODUCTION = {"DAIRA_ENV": "production", "DAIRA_PORT": "0"}


@pytest.mark.threat(72, 73)
def test_memory_adapters_are_refused_and_each_is_named(tmp_path: Path) -> None:
    refused = run(
        "serve",
        cwd=tmp_path,
        DAIRA_DATABASE_URL="memory://",
        DAIRA_QUEUE_URL="memory://",
        DAIRA_BLOB_URL="memory://",
        DAIRA_DEBUG="true",
        DAIRA_CORS_ORIGINS="*",
        **PRODUCTION,
    )
    assert refused.returncode == 78
    for named in ("DAIRA_DATABASE_URL", "DAIRA_QUEUE_URL", "DAIRA_BLOB_URL", "DAIRA_DEBUG", "DAIRA_CORS_ORIGINS"):
        assert sum(fault.startswith(named) for fault in json.loads(refused.stderr)["faults"]) == 1
    assert "5 fault(s)" in refused.stderr


@pytest.mark.threat(72)
def test_the_embedded_server_is_refused(tmp_path: Path) -> None:
    refused = run("serve", cwd=tmp_path, DAIRA_DATA_DIR=str(tmp_path / "data"), **PRODUCTION)
    assert refused.returncode == 78
    assert "embedded Postgres is for development" in refused.stderr
    assert "DAIRA_BLOB_URL is empty" in refused.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.threat(21)
def test_a_superusers_login_is_refused(cloned: Cloned, tmp_path: Path) -> None:
    refused = run("serve", cwd=tmp_path, DAIRA_DATABASE_URL=cloned.admin_url, DAIRA_BLOB_URL="file:///b", **PRODUCTION)
    assert refused.returncode == 78
    assert "is a superuser" in refused.stderr
    assert "has BYPASSRLS" in refused.stderr
    assert "row_security = off does not raise" in refused.stderr


@pytest.mark.threat(21)
def test_the_owners_login_is_refused(cloned: Cloned, tmp_path: Path) -> None:
    refused = run("serve", cwd=tmp_path, DAIRA_DATABASE_URL=cloned.owner_url, DAIRA_BLOB_URL="file:///b", **PRODUCTION)
    assert refused.returncode == 78
    assert "owns the tenant tables" in refused.stderr


def test_what_is_unsafe_is_refused_while_the_database_is_away(tmp_path: Path) -> None:
    nowhere = "postgresql://daira_app@127.0.0.1:1/daira"
    refused = run("serve", cwd=tmp_path, DAIRA_DATABASE_URL=nowhere, DAIRA_QUEUE_URL="memory://", **PRODUCTION)
    assert refused.returncode == 78
    assert "the database can't be reached" in refused.stderr
    assert "DAIRA_QUEUE_URL=memory://" in refused.stderr


@pytest.mark.threat(72)
def test_plain_uvicorn_is_bound_by_the_guard_too(tmp_path: Path) -> None:
    """Whatever starts the program: it does not serve."""
    import subprocess
    import sys

    from tests.support.service import environment

    refused = subprocess.run(
        [sys.executable, "-P", "-m", "uvicorn", "app.main:app", "--port", "0"],
        cwd=tmp_path,
        env=environment(DAIRA_DATABASE_URL="memory://", DAIRA_QUEUE_URL="memory://", **PRODUCTION),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 78
    assert "refuses to start in production" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_doctor_finds_nothing_wrong_with_an_ordinary_set_up(cloned: Cloned, tmp_path: Path) -> None:
    blobs = (tmp_path / "blobs").as_uri()
    healthy = run("doctor", cwd=tmp_path, DAIRA_DATABASE_URL=cloned.app_url, DAIRA_BLOB_URL=blobs, **PRODUCTION)
    assert healthy.returncode == 0, healthy.stdout + healthy.stderr
    assert "FAULT" not in healthy.stdout
    for check in ("settings", "walled tables", "database answers", "queue answers", "blobs answers"):
        assert f"{check}\n" in healthy.stdout


def test_the_doctor_ends_with_1_on_a_fault(cloned: Cloned, tmp_path: Path) -> None:
    sick = run("doctor", cwd=tmp_path, DAIRA_DATABASE_URL=cloned.owner_url, DAIRA_DATA_DIR=str(tmp_path))
    assert sick.returncode == 1
    assert "FAULT" in sick.stdout


@pytest.mark.parametrize(
    ("settings", "total"),
    [
        (
            {"DAIRA_ROLE": "web"},
            "19 at most for a process of role web (10 requests and handlers + 4 claims + 5 doorb",
        ),
        ({"DAIRA_ROLE": "worker", "DAIRA_POOL_SIZE": "4"}, "17 at most"),
        ({"DAIRA_ROLE": "worker", "DAIRA_QUEUE_URL": "redis://127.0.0.1:1/0"}, "15 at most"),
    ],
)
def test_the_doctor_adds_the_connections_up(
    cloned: Cloned, tmp_path: Path, settings: dict[str, str], total: str
) -> None:
    told = run("doctor", cwd=tmp_path, DAIRA_DATABASE_URL=cloned.app_url, DAIRA_DATA_DIR=str(tmp_path), **settings)
    (line,) = [line for line in told.stdout.splitlines() if "connections:" in line]
    assert line.startswith(f"ok    connections: {total}")
    assert "max_connections admits" in line
    assert "are in use, room for" in line


async def test_more_connections_than_the_login_may_hold_are_a_fault(cloned: Cloned, tmp_path: Path) -> None:
    login = f"login_{uuid7().hex}"
    async with administer(cloned.admin_url) as admin:
        await admin.execute(f"create role {login} login connection limit 12 in role daira_app")
        await admin.execute(f"grant connect on database {await admin.fetchval('select current_database()')} to {login}")
        ours = {"DAIRA_DATABASE_URL": cloned.app_url.replace("daira_app@", f"{login}@"), "DAIRA_ROLE": "web"}
        refused = run("serve", cwd=tmp_path, DAIRA_BLOB_URL=tmp_path.as_uri(), **ours, **PRODUCTION)
        assert refused.returncode == 78
        (fault,) = json.loads(refused.stderr)["faults"]
        assert fault.startswith("this process may hold 19 connections, and the login's CONNECTION LIMIT admits 12")
        await admin.execute(f"drop owned by {login}; drop role {login}")


@pytest.mark.parametrize("role", Role)
async def test_the_budget_is_the_sum_of_the_pools(cloned: Cloned, role: Role, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, database_url=cloned.app_url, data_dir=tmp_path, role=role, ocr="null")
    made: list[int] = []

    class Counting(PostgresEngine):
        def __init__(self, url: str, *, pool_size: int, name: str, pooled: bool = False) -> None:
            made.append(pool_size)
            super().__init__(url, pool_size=pool_size, name=name, pooled=pooled)

    with patch("app.wiring.PostgresEngine", Counting):
        async with open_runtime(settings, Metrics()) as runtime:
            if runtime.worker is not None:
                runtime.worker.start()
                await runtime.worker.stop()
    listening = 0 if role is Role.WEB else len(settings.lanes)
    assert sum(made) + listening == connection_budget(settings).total


@pytest.mark.parametrize("command", [["doctor"], ["tenant", "list"], ["migrate"], ["selftest"], ["backlog"], ["sweep"]])
def test_no_command_of_production_makes_itself_a_database(command: list[str], tmp_path: Path) -> None:
    """In a shell without the settings it would have answered from an empty one."""
    lost = run(*command, cwd=tmp_path, DAIRA_DATA_DIR=str(tmp_path / "data"), **PRODUCTION)
    assert lost.returncode == 1
    assert "DAIRA_DATABASE_URL is empty" in lost.stdout + lost.stderr
    assert not (tmp_path / "data").exists()


def test_where_the_database_is_away_the_doctor_says_which_and_looks_at_all_else(tmp_path: Path) -> None:
    sick = run(
        "doctor",
        cwd=tmp_path,
        DAIRA_DATABASE_URL="postgresql://daira_app:s3cret@127.0.0.1:1/daira",
        DAIRA_QUEUE_URL="redis://127.0.0.1:2/0",
        DAIRA_BLOB_URL=tmp_path.as_uri(),
        **PRODUCTION,
    )
    assert sick.returncode == 1
    assert "DAIRA_DATABASE_URL leads to 127.0.0.1:1/daira" in sick.stdout
    assert "s3cret" not in sick.stdout
    assert "FAULT queue answers" in sick.stdout
    assert "blobs answers\n" in sick.stdout


def test_an_administrator_who_may_not_make_roles_is_told_so(cloned: Cloned, tmp_path: Path) -> None:
    refused = run(
        "db",
        "init",
        cwd=tmp_path,
        DAIRA_ADMIN_DATABASE_URL=cloned.app_url,
        DAIRA_MIGRATION_DATABASE_URL=cloned.owner_url,
        DAIRA_DATABASE_URL=cloned.app_url.replace("daira_app@", "daira_app:s3cret@"),
    )
    assert refused.returncode == 1
    assert "needs CREATEROLE and CREATEDB" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_port_that_is_taken_is_told_with_the_setting_for_another(cloned: Cloned, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run("serve", cwd=tmp_path, DAIRA_DATABASE_URL=cloned.app_url, DAIRA_PORT=str(port))
    assert refused.returncode == 1
    assert "set DAIRA_PORT" in refused.stderr


def test_an_unknown_setting_is_wrong_usage(tmp_path: Path) -> None:
    typo = run("serve", cwd=tmp_path, DAIRA_DATABSE_URL="postgresql://x")
    assert typo.returncode == 2
    assert "DAIRA_DATABSE_URL" in typo.stderr
    assert "Traceback" not in typo.stderr
