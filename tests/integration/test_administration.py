"""Tenants and keys by the commands of whoever runs the service, against a database as in production."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.adapters.postgres.engine import administer
from app.cli import bulk_jobs, keys, tenants
from app.cli.keys import duration
from app.domain.errors import DairaError, Invalid
from tests.support.databases import Cloned

Daira = Callable[..., Result]


@pytest.fixture
def daira(cloned: Cloned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daira:
    """In this process: starting one for each command takes longer than all that the commands do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAIRA_DATABASE_URL", cloned.app_url)
    monkeypatch.setenv("DAIRA_BLOB_URL", (tmp_path / "blobs").as_uri())
    monkeypatch.setenv("COLUMNS", "200")
    groups = {"tenant": tenants.tenant, "key": keys.key, "job": bulk_jobs.job}
    return lambda group, *arguments: CliRunner().invoke(groups[group], arguments)


def fault(result: Result) -> str:
    """What the program would print; its exit status would be 1."""
    assert isinstance(result.exception, DairaError)
    assert result.stdout == ""
    return str(result.exception)


def ids(listing: str) -> list[str]:
    return re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", listing)


def test_a_key_is_made_shown_rotated_and_revoked(daira: Daira) -> None:
    assert daira("tenant", "create", "acme").exit_code == 0
    made = daira("key", "create", "acme", "--name", "scanner", "--scope", "documents:write", "--expires-in", "90d")
    assert re.fullmatch(r"daira_acme_[A-Za-z0-9]{43}\n", made.stdout)
    listed = daira("key", "list", "acme").stdout
    assert "scanner" in listed
    assert "documents:write" in listed
    assert "documents:read" not in listed
    rotated = daira("key", "rotate", "acme", *ids(listed), "--overlap", "0")
    assert re.fullmatch(r"daira_acme_[A-Za-z0-9]{43}\n", rotated.stdout)
    assert rotated.stdout != made.stdout
    old, new = ids(daira("key", "list", "acme").stdout)
    again = daira("key", "rotate", "acme", old)
    assert "has expired" in fault(again)
    assert daira("key", "revoke", "acme", new).exit_code == 0


def failed_jobs(cloned: Cloned, *, count: int) -> None:
    async def insert() -> None:
        async with administer(cloned.admin_url) as admin:
            await admin.execute(
                "insert into daira.jobs (tenant_id, id, kind, webhook_id, state, failures, attempts, finished_at,"
                " last_error) select 'acme', gen_random_uuid(), 'webhook', gen_random_uuid(), 'failed', 10, 10, now(),"
                ' \'{"code": "no_address", "message": "gone"}\' from generate_series(1, $1)',
                count,
            )

    asyncio.run(insert())


def test_failed_jobs_that_match_are_counted_and_queued_again(daira: Daira, cloned: Cloned) -> None:
    assert daira("tenant", "create", "acme").exit_code == 0
    failed_jobs(cloned, count=250)
    matching = ("--kind", "webhook", "--code", "no_address", "--since", "1h")
    assert (
        "250 job(s) of 1 tenant(s) match; nothing was changed" in daira("job", "retry", *matching, "--dry-run").stdout
    )
    assert "Say so with --yes" in fault(daira("job", "retry", *matching))
    assert "0 job(s)" in daira("job", "retry", "--code", "timeout", "--yes").stdout
    assert "250 job(s) changed, 0 left out" in daira("job", "retry", *matching, "--yes").stdout
    assert "0 job(s)" in daira("job", "retry", *matching, "--yes").stdout
    assert "250 job(s) changed" in daira("job", "cancel", "--tenant", "acme", "--yes").stdout
    assert "there is no kind summary" in fault(daira("job", "retry", "--kind", "summary"))
    assert "no tenant initech" in fault(daira("job", "retry", "--tenant", "initech", "--yes"))


def test_limits_are_set_shown_and_left_to_the_settings_again(daira: Daira) -> None:
    assert daira("tenant", "create", "acme").exit_code == 0
    shown = daira("tenant", "limits", "acme", "--max-queued", "50", "--requests-per-minute", "600").stdout
    assert re.search(r"max_queued\W+50\W+50\b", shown)
    assert re.search(r"max_upload_bytes\W+none\W+104,857,600\b", shown)
    assert re.search(r"max_running\W+none\W+none\b", shown)
    shown = daira("tenant", "limits", "acme", "--max-queued", "none").stdout
    assert re.search(r"max_queued\W+none\W+10,000\b", shown)
    assert re.search(r"requests_per_minute\W+600\W+600\b", shown)
    for wrong in ("0", "-1", "many", "٣"):
        refused = daira("tenant", "limits", "acme", f"--max-queued={wrong}")
        assert "is a number" in fault(refused)


def test_a_tenant_is_erased_when_its_name_is_given_again_and_then_only(daira: Daira, tmp_path: Path) -> None:
    for name in ("acme", "bolt"):
        assert daira("tenant", "create", name).exit_code == 0
        (tmp_path / "blobs" / name).mkdir(parents=True)
        (tmp_path / "blobs" / name / "a-blob").write_bytes(b"Dear Sir")
    for wrong in ("bolt", "", "Acme"):
        assert "nothing was erased" in fault(daira("tenant", "erase", "acme", "--yes-erase", wrong))
    unanswered = daira("tenant", "erase", "acme")
    assert unanswered.exit_code == 1
    assert "Type its name" in unanswered.stderr
    assert "acme" in daira("tenant", "list").stdout
    assert daira("tenant", "erase", "acme", "--yes-erase", "acme").exit_code == 0
    assert [folder.name for folder in (tmp_path / "blobs").iterdir()] == ["bolt"]
    listed = daira("tenant", "list").stdout
    assert "acme" not in listed
    assert "bolt" in listed
    again = daira("tenant", "erase", "acme", "--yes-erase", "acme")
    assert "there is no tenant acme" in fault(again)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("0d", 0), ("30s", 30), ("15m", 900), ("24h", 86_400), ("90d", 7_776_000)]
)
def test_a_span_of_time_is_a_number_and_its_unit(text: str, seconds: int) -> None:
    assert duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "1.5h", "1 d", "1y", "9999999d", "١d", "1d\n"])
def test_what_is_no_span_of_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="write it as"):
        duration(text)
