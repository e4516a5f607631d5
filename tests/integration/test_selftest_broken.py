"""`daira selftest` on deployments that are broken in one way each: the right check fails, and says why."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from app import bootstrap
from app.adapters.postgres.engine import administer
from app.domain.doorbells import Lane
from app.selftest import bench, delivery
from app.selftest.run import CheckVerdict
from tests.support.databases import Cloned
from tests.support.postgres_rig import TENANT_TABLES
from tests.support.selftests import failed, find, settings_of
from tests.support.valkey import Valkey, running_valkey


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with running_valkey() as valkey:
        yield valkey


BREACHES = {
    "alter table daira.results disable row level security": [
        "without a tenant, rows are seen in results",
        "rows of other tenants are seen in results",
        "without a tenant, on a used connection, rows are seen in results",
        "a row for another tenant can be written to results",
        "without a tenant, a row can be written to results",
    ],
    "alter policy tenant_rows on daira.pages using (true); alter policy tenant_clamp on daira.pages using (true)": [
        "without a tenant, rows are seen in pages",
        "rows of other tenants are seen in pages",
        "without a tenant, on a used connection, rows are seen in pages",
    ],
    "alter policy tenant_rows on daira.jobs with check (true);"
    "alter policy tenant_clamp on daira.jobs with check (true)": [
        "a row for another tenant can be written to jobs",
        "without a tenant, a row can be written to jobs",
    ],
    "alter policy tenant_rows on daira.api_keys using (tenant_id = current_setting('app.tenant_id', true) or"
    " current_setting('app.tenant_id', true) = '');"
    "alter policy tenant_clamp on daira.api_keys using (true)": [
        "without a tenant, on a used connection, rows are seen in api_keys"
    ],
    "create table daira.notes (tenant_id text); grant select on daira.notes to daira_app;"
    "insert into daira.notes values ('acme')": [
        "without a tenant, rows are seen in notes",
        "rows of other tenants are seen in notes",
        "without a tenant, on a used connection, rows are seen in notes",
    ],
    "create function daira.peek() returns bigint language sql security definer as 'select 1::bigint'": [
        "function peek is SECURITY DEFINER and not one of the published two"
    ],
}


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: breach[:40])
async def test_a_wall_with_a_hole_is_told_with_the_table(cloned: Cloned, tmp_path: Path, breach: str) -> None:
    async with administer(cloned.admin_url) as admin:
        await admin.execute(breach)
    found = await find(settings_of(cloned, tmp_path))
    assert found["isolation"].verdict is CheckVerdict.FAILED
    assert found["isolation"].seen == "; ".join(BREACHES[breach])
    assert found["clean-up"].verdict is CheckVerdict.PASSED


async def test_a_login_that_the_wall_does_not_bind_is_told(cloned: Cloned, tmp_path: Path) -> None:
    found = await find(settings_of(cloned, tmp_path, database_url=cloned.admin_url))
    names = ", ".join(sorted(table.name for table in TENANT_TABLES))
    assert f"rows of other tenants are seen in {names}" in found["isolation"].seen


async def test_the_owners_login_gets_no_further_than_the_first_step(cloned: Cloned, tmp_path: Path) -> None:
    found = await find(settings_of(cloned, tmp_path, database_url=cloned.owner_url))
    assert list(found) == ["set-up", "clean-up"]
    assert found["set-up"].seen.startswith("no tenant can be registered (InsufficientPrivilegeError: ")
    assert failed(found) == {"set-up"}


UNFENCED = ("settle", "where j.state = 'claimed' and j.attempts = u.attempt", "where true")
NOTED = "where u.outcome <> 'yield'"
UNKEYED = ("settle", f"{NOTED};", f"{NOTED} on conflict do nothing;")
UNBEATEN = ("beat", "coalesce(j.state = 'claimed' and j.attempts = u.attempt, false) as held", "true as held")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([UNFENCED], "a result with a lost lease got past the fence while another worker had the job: "),
        ([UNFENCED, UNKEYED], "a result with a lost lease was accepted while another worker had the job; "),
        ([UNBEATEN], "a beat with a lost lease was accepted while another worker had the job; "),
    ],
    ids=["settle", "settle without a key behind it", "beat"],
)
async def test_a_fence_that_does_not_hold_is_told(
    cloned: Cloned, tmp_path: Path, changes: list[tuple[str, str, str]], told: str
) -> None:
    for function, text, instead in changes:
        await _rewrite(cloned, function, text, instead)
    settings = settings_of(cloned, tmp_path)
    found = await find(settings, worker=settings, patience=5, checks={"stale writer"})
    assert failed(found) == {"stale writer"}
    assert found["stale writer"].seen.startswith(told)


async def test_workers_whose_sweep_finds_nothing_and_who_have_another_blob_store_are_told(
    cloned: Cloned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "FIRST_RING_GRACE", timedelta(seconds=0.5))
    await _rewrite(cloned, "sweep", "continue when not found;", "continue;")
    theirs = settings_of(cloned, tmp_path, blob_url=(tmp_path / "elsewhere").as_uri())
    found = await find(settings_of(cloned, tmp_path), worker=theirs, patience=2)
    assert failed(found) == {"lost bell", "killed worker", "stale writer", "shared blobs"}
    assert found["lost bell"].seen == "the job is still queued after 3.5 s, 0 attempt(s) so far"
    assert found["killed worker"].seen.startswith("the job is still claimed by doomed-")
    assert "does not find bytes stored here; set DAIRA_BLOB_URL" in found["shared blobs"].seen


async def test_a_worker_that_never_hears_of_a_cancel_is_told(
    cloned: Cloned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LONG", timedelta(seconds=2))
    await _rewrite(cloned, "beat", "coalesce(j.cancel_requested, false) as cancel", "false as cancel")
    settings = settings_of(cloned, tmp_path)
    found = await find(settings, worker=settings, patience=5, checks={"cancel"})
    assert found["cancel"].seen == "the job is done, not cancelled; its history: done"


async def test_workers_that_listen_to_another_queue_are_slow_and_it_says_why(
    cloned: Cloned, tmp_path: Path, valkey: Valkey
) -> None:
    settings = settings_of(cloned, tmp_path)
    elsewhere = settings.model_copy(update={"queue_url": SecretStr(valkey.url)})
    found = await find(elsewhere, worker=settings, patience=5, checks=set())
    assert "DAIRA_QUEUE_URL differs from the workers'" in found["delivery"].seen


async def test_workers_of_an_older_version_are_told_from_none(
    cloned: Cloned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "LANE_OF_KIND", {"ocr": Lane.OCR})
    settings = settings_of(cloned, tmp_path)
    found = await find(settings, worker=settings, patience=1)
    assert "don't know the job kind selftest: they are of an older version" in found["delivery"].seen


async def _rewrite(cloned: Cloned, function: str, text: str, instead: str) -> None:
    """Change a function of the schema as a careless hand would."""
    async with administer(cloned.owner_url) as owner:
        body: str = await owner.fetchval("select pg_get_functiondef(to_regproc('daira.' || $1))", function)
        assert text in body
        await owner.execute(body.replace(text, instead))
