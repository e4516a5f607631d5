"""What would breach the wall, done to a database: the start-up guard names it, and nothing starts in production."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app import guard
from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.ids import uuid7
from tests.support.databases import Cloned
from tests.support.service import run

CLAMP = "tenant_id = (select nullif(current_setting('app.tenant_id', true), ''))"

EMPTY_FUNCTION = "returns trigger language plpgsql as 'begin return new; end'"

BREACHES: dict[str, str] = {
    # The wall itself.
    "alter table daira.jobs no force row level security": "table jobs lacks ENABLE or FORCE",
    "alter table daira.pages disable row level security": "table pages lacks ENABLE or FORCE",
    "drop policy tenant_clamp on daira.jobs": "table jobs lacks its restrictive clamp policy",
    "drop policy tenant_rows on daira.results": "table results lacks its permissive clamp policy",
    "alter policy tenant_clamp on daira.documents using (true)": "policy tenant_clamp on documents is not the clamp",
    "alter policy tenant_clamp on daira.api_keys with check (true)": "policy tenant_clamp on api_keys is not the clamp",
    f"alter policy tenant_rows on daira.pages using ({CLAMP} or true)": "policy tenant_rows on pages is not the clamp",
    f"alter policy tenant_clamp on daira.jobs using ({CLAMP} or state = 'queued')": (
        "policy tenant_clamp on jobs is not the clamp"
    ),
    "alter policy tenant_clamp on daira.jobs using (tenant_id = current_setting('app.tenant_id', true))": (
        "policy tenant_clamp on jobs is not the clamp"
    ),
    "create function daira.me(text) returns text immutable language sql as 'select current_setting($1, true)';"
    "alter policy tenant_clamp on daira.jobs using (tenant_id = daira.me('app.tenant_id'))"
    " with check (tenant_id = daira.me('app.tenant_id'))": "policy tenant_clamp on jobs is not the clamp",
    "alter policy tenant_clamp on daira.jobs to daira_owner": "table jobs lacks its restrictive clamp policy",
    "create policy careless on daira.jobs for select to daira_app using (true)": (
        "policy careless on jobs shows daira_app more than a tenant's rows"
    ),
    "create policy report on daira.pages for select to daira_scout using (true)": "policy report on pages shows",
    "create policy everybody on daira.documents using (true)": "policy everybody on documents shows PUBLIC more",
    "drop policy scout_live on daira.jobs; create policy scout_live on daira.jobs to daira_scout using (true)": (
        "policy scout_live on jobs shows the scout something else"
    ),
    "alter policy scout_live on daira.jobs using (true)": "policy scout_live on jobs shows the scout something else",
    "alter policy scout_live on daira.jobs to daira_scout, daira_app": "policy scout_live on jobs shows the scout",
    # Tables that come later.
    "create table daira.notes (tenant_id text not null)": "table notes lacks ENABLE or FORCE",
    "create table daira.notes (tenant_id text not null); alter table daira.notes enable row level security": (
        "table notes lacks ENABLE or FORCE"
    ),
    "create table daira.notes (id int)": "table notes does not say whose its rows are",
    "create table daira.jobs_of_2027 () inherits (daira.jobs)": "table jobs_of_2027 lacks ENABLE or FORCE",
    "create table public.jobs_of_2027 () inherits (daira.jobs)": "jobs_of_2027 shows rows of tenants outside",
    "create table daira.events (tenant_id text not null) partition by hash (tenant_id);"
    "alter table daira.events enable row level security, force row level security;"
    "create table daira.events_0 partition of daira.events for values with (modulus 2, remainder 0)": (
        "table events_0 lacks ENABLE or FORCE"
    ),
    "alter table daira.jobs drop constraint jobs_tenant_check": "table jobs takes rows whose tenant is NULL or empty",
    "alter table daira.doorbells add column payload jsonb": "doorbells has a column payload",
    # Ways around it.
    "create view daira.everything as select * from daira.jobs": "view everything runs with its owner's rights",
    "create view public.everything as select id from daira.jobs": "everything shows rows of tenants outside",
    "create materialized view daira.copied as select * from daira.tenants with no data": "view copied runs with",
    "create materialized view public.copied as select id from daira.pages join daira.jobs using (tenant_id)": (
        "copied shows rows of tenants outside"
    ),
    "create function daira.peek() returns bigint language sql security definer as 'select 1::bigint'": (
        "function peek is SECURITY DEFINER"
    ),
    "create function public.peek() returns bigint language sql security definer as 'select 1::bigint'": (
        "function peek is SECURITY DEFINER"
    ),
    "create function daira.backlog(text) returns bigint language sql security definer as 'select 1::bigint'": (
        "function backlog is there 2 times"
    ),
    "alter function daira.claim(text[], uuid[], text, interval, text[], int) security definer": (
        "function claim is SECURITY DEFINER"
    ),
    "alter function daira.backlog() owner to postgres": "function backlog runs as postgres",
    "alter function daira.backlog() reset search_path": "function backlog has lost its search_path",
    "grant execute on function daira.backlog() to public": "function backlog may be called by PUBLIC",
    "grant execute on function daira.backlog() to daira_owner": "function backlog may be called by daira_owner",
    "create function public.look(text) returns bool language plpgsql leakproof as 'begin return true; end'": (
        "function look is LEAKPROOF"
    ),
    f"create function public.copy() {EMPTY_FUNCTION};"
    "create trigger copy after insert on daira.pages for each row execute function public.copy()": (
        "copy on pages is a trigger or rule that no migration made"
    ),
    "create rule copy as on insert to daira.pages do also notify pages": "copy on pages is a trigger or rule",
    # Grants.
    "grant truncate on daira.jobs to daira_app": "daira_app may TRUNCATE jobs",
    "grant update on daira.documents to daira_app": "daira_app may UPDATE documents",
    "grant update (tenant_id) on daira.jobs to daira_app": "daira_app may UPDATE jobs.tenant_id",
    "grant update (id) on daira.documents to daira_app": "daira_app may UPDATE documents.id",
    "grant references on daira.jobs to daira_app": "daira_app may REFERENCES jobs",
    "grant trigger on daira.pages to daira_app": "daira_app may TRIGGER pages",
    "grant select on daira.tenants to public": "PUBLIC may SELECT tenants",
    "grant select (payload) on daira.jobs to daira_scout": "daira_scout may SELECT jobs.payload",
    "grant select on daira.jobs to daira_scout": "daira_scout may SELECT jobs",
    "grant select (text) on daira.pages to daira_scout": "daira_scout may SELECT pages.text",
    "grant create on schema daira to daira_app": "the login may create things in schema daira",
    "grant create on schema public to public": "the login may create things in schema public",
    # Keys by which one tenant could ask about another's ids.
    "create unique index jobs_by_id on daira.jobs (id)": "key jobs_by_id of jobs does not carry the tenant",
    "alter table daira.jobs add constraint jobs_parent foreign key (id) references daira.anybody": (
        "key jobs_parent of jobs does not carry the tenant"
    ),
    "alter table daira.pages disable trigger all": "foreign keys of pages are switched off",
    # The scout, without which lost work is never found; and the schema.
    "drop policy scout_live on daira.jobs": "the scout has no policy on jobs",
    "drop policy scout_registry on daira.tenants": "the scout has no policy on tenants",
    "update daira.alembic_version set version_num = '20260101_0000'": "the schema is at 20260101_0000",
    "delete from daira.alembic_version": "the schema is at nothing",
}

PREPARED = {"daira.anybody": "create table daira.anybody (id uuid primary key)"}
"""What a breach needs to be there."""


async def faults(database_url: str) -> list[str]:
    """All that the guard asks of a database, on one connection."""
    engine = PostgresEngine(database_url, pool_size=1, name="guard")
    try:
        return [fault for check in guard.CHECKS.values() for fault in await check(engine)]
    finally:
        await engine.close()


@pytest.mark.threat(21, 22, 23)
async def test_a_database_as_the_migrations_make_it_has_no_fault(cloned: Cloned) -> None:
    assert await faults(cloned.app_url) == []


@pytest.mark.threat(8, 9, 19, 22, 23, 24, 25, 27, 76)
@pytest.mark.parametrize("breach", BREACHES)
async def test_a_breach_is_named_by_the_guard(cloned: Cloned, breach: str) -> None:
    async with administer(cloned.admin_url) as admin:
        for needed, statement in PREPARED.items():
            if needed in breach:
                await admin.execute(statement)
        await admin.execute(breach)
    found = await faults(cloned.app_url)
    assert any(BREACHES[breach] in fault for fault in found), found


@pytest.fixture
async def login(cloned: Cloned) -> AsyncIterator[str]:
    """A role of its own: roles are the whole server's, and other tests use them."""
    role = f"login_{uuid7().hex}"
    async with administer(cloned.admin_url) as admin:
        await admin.execute(f"create role {role} login in role daira_app")
        await admin.execute(f"grant connect on database {await admin.fetchval('select current_database()')} to {role}")
        yield role
        await admin.execute(f"drop owned by {role}; drop role {role}")


LOGINS = {
    "alter role {role} superuser": "is a superuser",
    "alter role {role} bypassrls": "has BYPASSRLS",
    "alter role {role} replication": "has REPLICATION or CREATEROLE",
    "alter role {role} createrole": "has REPLICATION or CREATEROLE",
    "grant daira_owner to {role}": "is a member of their owner daira_owner",
    "grant daira_scout to {role}": "is a member of daira_scout and sees what that may see",
    "grant pg_read_all_data to {role}": "is a member of pg_read_all_data",
    "alter role {role} set app.tenant_id = 'acme'": "app.tenant_id is set for every connection",
}


@pytest.mark.threat(21, 23)
@pytest.mark.parametrize("change", LOGINS)
async def test_a_login_that_the_wall_does_not_bind_is_named(cloned: Cloned, login: str, change: str) -> None:
    url = cloned.app_url.replace("daira_app@", f"{login}@")
    assert await faults(url) == []
    async with administer(cloned.admin_url) as admin:
        await admin.execute(change.format(role=login))
    found = await faults(url)
    assert any(LOGINS[change] in fault for fault in found), found


@pytest.mark.threat(21, 22)
async def test_production_does_not_start_on_a_breach_and_the_doctor_names_it(cloned: Cloned, tmp_path: Path) -> None:
    async with administer(cloned.admin_url) as admin:
        await admin.execute("create policy careless on daira.jobs to public using (true)")
    ours = {"DAIRA_DATABASE_URL": cloned.app_url, "DAIRA_BLOB_URL": (tmp_path / "blobs").as_uri()}
    refused = run("serve", cwd=tmp_path, DAIRA_ENV="production", **ours)
    assert refused.returncode == guard.EXIT_REFUSED
    assert "policy careless on jobs shows PUBLIC more than a tenant's rows" in refused.stderr
    sick = run("doctor", cwd=tmp_path, **ours)
    assert sick.returncode == 1
    assert "policy careless on jobs" in sick.stdout
