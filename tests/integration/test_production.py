"""Production refuses to start on anything that could lose work or leak a tenant, and names all of it at once."""

import json
import socket
from pathlib import Path

import pytest

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
