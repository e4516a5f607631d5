"""A service is backed up while it works, lost, and restored on another server: by the commands of docs/backup.md."""

import asyncio
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.postgres.isolation.roles import APP, OWNER, make_roles
from app.adapters.postgres.leases import PostgresLeases
from app.adapters.postgres.migrations import migrate
from app.bootstrap import open_runtime
from app.domain.doorbells import Ring
from app.domain.ids import JobId, tenant_id
from app.domain.keys import Scope
from app.embedded import binaries
from app.embedded.server import EmbeddedPostgres
from app.telemetry import Metrics
from tests.security.clamps import TABLES, clamped, counts
from tests.security.tenant_fixtures import settings_of
from tests.support.databases import Cloned
from tests.support.folders import open_folder
from tests.support.sample_documents import Sheet, pdf
from tests.support.service import Service, ended, environment, install, run, serving_again, upload, using, wait_until
from tests.support.snippets import snippets

TENANTS = ("acme", "globex", "initech")
DUMP, COPY, RESTORE = slice(1), slice(1, 2), slice(2, None)
"""The blocks of docs/backup.md that name this test, in their order."""

ROLE = """
create role daira_backup login bypassrls in role pg_read_all_data;
grant connect on database daira to daira_backup
"""
COUNTS = "select tenant_id, count(*) from daira.{table} group by 1 order by 1"
LEASE = timedelta(seconds=1)

# A drill of minutes: ./daira test -m slow tests/integration/test_restore.py -n0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Body = Mapping[str, Any]


@dataclass(kw_only=True)
class Story:
    """What was there, and what became of it on the new server."""

    folder: Path
    keys: dict[str, str] = field(default_factory=dict)
    read: dict[str, Body] = field(default_factory=dict)
    queued: dict[str, Body] = field(default_factory=dict)
    claimed: dict[str, Body] = field(default_factory=dict)
    deleted: list[Body] = field(default_factory=list)
    """Of acme, between the dump and the copy of the bytes: one that was read, and one that was not yet."""
    late: Body = field(default_factory=dict)
    """Of acme, uploaded then."""
    rows: dict[str, list[Any]] = field(default_factory=dict)
    restored: dict[str, list[Any]] = field(default_factory=dict)

    def settings(self, server: Cloned, blobs: str) -> dict[str, str]:
        return {"DAIRA_DATABASE_URL": server.app_url, "DAIRA_BLOB_URL": (self.folder / blobs).as_uri()}


def paper(text: str) -> bytes:
    return pdf(Sheet(lines=(text,)))


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Up to where the old server is gone, and the blocks of the page have been run."""
    with open_folder() as folder:
        story = Story(folder=folder)
        with _server(folder / "old") as old:
            asyncio.run(_prepare(story, old))
            with _serving(story, old) as service:
                _read(story, service)
            with _serving(story, old, DAIRA_ROLE="web") as service:
                _wait_to_be_read(story, service)
                asyncio.run(_claim(old, story.claimed))
                story.rows = asyncio.run(_rows(old))
                _follow_the_page(story, old, DUMP)
                _go_on(story, service)
                _follow_the_page(story, old, COPY)
        yield story


@pytest.fixture(scope="module")
def new(story: Story) -> Iterator[Cloned]:
    with _server(story.folder / "new") as new:
        _follow_the_page(story, new, RESTORE)
        story.restored = asyncio.run(_rows(new))
        yield new


@pytest.fixture(scope="module")
def service(story: Story, new: Cloned) -> Iterator[Service]:
    with _serving(story, new, blobs="restored", DAIRA_SWEEP_SECONDS="1") as service:
        yield service


async def test_each_tenant_has_the_rows_that_it_had_behind_the_wall(story: Story, new: Cloned) -> None:
    assert story.restored == story.rows
    assert {tenant for tenant, _ in story.rows["documents"]} == set(TENANTS)
    async with administer(new.app_url) as app:
        assert await counts(app) == dict.fromkeys(TABLES, 0)
        for tenant in TENANTS:
            async with clamped(app, tenant):
                assert (await counts(app))["documents"] == dict(story.rows["documents"])[tenant]


@pytest.mark.parametrize("tenant", TENANTS)
def test_what_was_read_is_read_with_the_keys_of_before(story: Story, service: Service, tenant: str) -> None:
    document = story.read[tenant]
    with _as(service, story, tenant).client() as client:
        assert client.get(f"/v1/documents/{document['id']}/text").text.strip() == f"Read for {tenant}"
        assert client.get(f"/v1/documents/{document['id']}/content").content == paper(f"Read for {tenant}")
        assert [
            hit["document_id"] for hit in client.get("/v1/search", params={"q": f"read {tenant}"}).json()["data"]
        ] == [document["id"]]


@pytest.mark.parametrize("tenant", TENANTS)
def test_unfinished_jobs_run_once_more_and_finished_ones_do_not(story: Story, service: Service, tenant: str) -> None:
    with _as(service, story, tenant).client() as client:
        histories = {
            name: [entry["outcome"] for entry in ended(client, document["jobs"][0], seconds=60)["history"]]
            for name, document in {
                "read": story.read[tenant],
                "queued": story.queued[tenant],
                "claimed": story.claimed[tenant],
            }.items()
        }
    assert histories == {"read": ["done"], "queued": ["done"], "claimed": ["expired", "done"]}


@pytest.mark.usefixtures("service")
def test_the_selftest_passes(story: Story, new: Cloned) -> None:
    tried = run("selftest", cwd=story.folder, **story.settings(new, "restored"))
    assert tried.returncode == 0, tried.stdout + tried.stderr


def test_rows_without_bytes_say_so_until_the_bytes_are_sent_again(story: Story, service: Service) -> None:
    read, unread = story.deleted
    with service.client() as client:
        assert client.get(f"/v1/documents/{read['id']}/text").text.strip() == "Deleted: read"
        gone = client.get(f"/v1/documents/{read['id']}/content")
        assert (gone.status_code, gone.json()["detail"]) == (404, "the document's bytes are gone")
        job = f"/v1/jobs/{unread['jobs'][0]['id']}"
        wait_until(lambda: client.get(job).json()["error"] is not None, seconds=60)
        assert client.get(job).json()["error"]["code"] == "unavailable"
        for document, text in ((read, "Deleted: read"), (unread, "Deleted: unread")):
            again = upload(client, paper(text))
            assert (again["id"], again["deduplicated"]) == (document["id"], True)
            assert client.get(f"/v1/documents/{document['id']}/content").content == paper(text)


def test_bytes_without_a_row_are_no_document_and_not_purged_at_once(
    story: Story, new: Cloned, service: Service
) -> None:
    late = story.folder / "restored" / "acme" / story.late["id"]
    purged = run("purge", cwd=story.folder, **story.settings(new, "restored"))
    assert purged.returncode == 0, purged.stderr
    assert late.read_bytes() == paper("Late")
    with service.client() as client:
        assert client.get(f"/v1/documents/{story.late['id']}").status_code == 404
        again = upload(client, paper("Late"))
    assert (again["deduplicated"], again["id"] == story.late["id"]) == (False, False)


@contextmanager
def _server(home: Path) -> Iterator[Cloned]:
    """One of its own: roles are the whole server's."""
    server = EmbeddedPostgres(home, durable=False, grace=timedelta())
    server.start()
    try:
        admin, owner, app = (server.url(user=user, database="daira") for user in ("postgres", OWNER, APP))
        yield Cloned(admin_url=admin, owner_url=owner, app_url=app)
    finally:
        server.close()
        wait_until(lambda: not using(home), seconds=30)


async def _prepare(story: Story, server: Cloned) -> None:
    await make_roles(_entrance(server), owner_url=server.owner_url, app_url=server.app_url)
    await migrate(server.owner_url)
    async with administer(server.admin_url) as admin:
        await admin.execute(ROLE)
    async with open_runtime(settings_of(server.app_url), Metrics()) as runtime:
        for tenant in map(tenant_id, TENANTS):
            await runtime.tenants.create(tenant)
            story.keys[tenant] = await runtime.tenants.issue_key(tenant, name="a key", scopes=frozenset({Scope.ADMIN}))


def _entrance(server: Cloned) -> str:
    return server.admin_url.replace("/daira?", "/postgres?")


def _read(story: Story, service: Service) -> None:
    story.read = {tenant: _upload(service, story, tenant, f"Read for {tenant}", wait=True) for tenant in TENANTS}
    story.deleted = [_upload(service, story, "acme", "Deleted: read", wait=True)]


def _wait_to_be_read(story: Story, service: Service) -> None:
    story.queued = {tenant: _upload(service, story, tenant, f"Queued for {tenant}") for tenant in TENANTS}
    story.claimed = {tenant: _upload(service, story, tenant, f"Claimed for {tenant}") for tenant in TENANTS}
    story.deleted.append(_upload(service, story, "acme", "Deleted: unread"))


def _go_on(story: Story, service: Service) -> None:
    """What happens after the dump, and before the bytes are copied."""
    story.late = _upload(service, story, "acme", "Late")
    with service.client() as client:
        for document in story.deleted:
            assert client.delete(f"/v1/documents/{document['id']}").is_success


async def _claim(server: Cloned, documents: Mapping[str, Body]) -> None:
    engine = PostgresEngine(server.app_url, pool_size=1, name="test")
    rings = [Ring(tenant_id(tenant), JobId(document["jobs"][0]["id"])) for tenant, document in documents.items()]
    claims = await PostgresLeases(engine).claim(rings, worker="lost", lease=LEASE, kinds=frozenset({"ocr"}))
    await engine.close()
    assert Counter(claim.outcome for claim in claims) == {"claimed": len(TENANTS)}


async def _rows(server: Cloned) -> dict[str, list[Any]]:
    async with administer(server.admin_url) as admin:
        return {table: [tuple(row) for row in await admin.fetch(COUNTS.format(table=table))] for table in TABLES}


def _follow_the_page(story: Story, server: Cloned, which: slice) -> None:
    ours = [snippet.code for snippet in snippets("docs/backup.md") if Path(__file__).name in snippet.mark]
    code = "\n".join(ours[which])
    programs = story.folder / "programs"
    programs.mkdir(exist_ok=True)
    install(programs)
    names = {
        "PATH": os.pathsep.join([str(programs), str(binaries.find_binaries(None).bin), os.environ["PATH"]]),
        "BACKUP_URL": server.admin_url.replace("postgres@", "daira_backup@"),
        "ADMIN_URL": _entrance(server),
        "RESTORE_URL": server.admin_url,
        "BLOBS": "blobs",
        "RESTORED": "restored",
        "DAIRA_MIGRATION_DATABASE_URL": server.owner_url,
        **story.settings(server, "restored"),
    }
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-euo", "pipefail", "-c", code],
        cwd=story.folder,
        env=environment(**names),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAULT" not in done.stdout


@contextmanager
def _serving(story: Story, server: Cloned, *, blobs: str = "blobs", **settings: str) -> Iterator[Service]:
    ours = story.settings(server, blobs) | settings
    with serving_again(server, story.folder, api_key=story.keys["acme"], **ours) as service:
        yield service


def _as(service: Service, story: Story, tenant: str) -> Service:
    return replace(service, api_key=story.keys[tenant])


def _upload(service: Service, story: Story, tenant: str, text: str, *, wait: bool = False) -> Body:
    with _as(service, story, tenant).client() as client:
        document = upload(client, paper(text))
        if wait:
            assert ended(client, document["jobs"][0])["state"] == "done"
    return document
