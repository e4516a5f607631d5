"""Rows that a newer version has written: what this version does not know changes no answer but its own."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import pytest

from app.adapters.postgres.engine import administer
from app.domain.ids import JobId, uuid7
from app.domain.webhooks import delivery_job
from tests.security.operations import operations
from tests.security.tenant_fixtures import InProcessService, TenantFixtures, in_process_service, new_app
from tests.support.databases import Cloned
from tests.support.rig import new_page, retry

APP = new_app()
READS = [each for each in operations(APP.openapi()) if each.method == "get" and each.path.startswith("/v1")]

NEWER = "newer_than_this_version"
ADDED = {"a": [1]}

POSITION = re.compile(rb"^id: .*\n", re.MULTILINE)

READABLE = {200, 202, 206, 304, 404, 409, 416}
"""What reads may be answered with."""

OPAQUE = {"documents.metadata", "results.data"}
"""Columns whose JSON is the tenant's or a job's own, and is answered as it is."""

JSON_COLUMNS = """
select c.table_name || '.' || c.column_name as name from information_schema.columns c
where c.table_schema = 'daira' and c.data_type in ('json', 'jsonb') order by 1
"""
LISTS = """
select c.table_name || '.' || c.column_name as name from information_schema.columns c
where c.table_schema = 'daira' and c.udt_name = '_text' order by 1
"""
CHECKS = """
select conrelid::regclass::text as table_name, conname from pg_constraint
where connamespace = 'daira'::regnamespace and contype = 'c'
"""
ADD_A_KEY = """
update daira.{table} set {column} = case jsonb_typeof({column})
    when 'object' then {column} || $1
    else (select coalesce(jsonb_agg(case jsonb_typeof(e) when 'object' then e || $1 else e || to_jsonb(7) end), '[]')
            from jsonb_array_elements({column}) e) end
where {column} is not null and {column} <> '[]'
"""
FILL = {
    "documents": """metadata = '{"order": 1}',
        warnings = '[{"code": "signed", "detail": "it is signed", "pages": [1]}]'""",
    "jobs": """progress = '{"done": 1, "total": 2, "unit": "page"}',
        last_error = '{"code": "corrupt", "message": "it is damaged"}'""",
    "pages": "warnings = '{low_confidence}'",
}


@dataclass(frozen=True, kw_only=True)
class Reader:
    service: InProcessService
    fixtures: TenantFixtures
    key: str

    async def answers(self) -> dict[str, tuple[int, bytes]]:
        """Return the status and the body of every read, by its request."""
        found = {}
        for operation in READS:
            values = self.fixtures.values()
            given = {name: values[of] for name, of in operation.named.items() if operation.places[name] == "path"}
            for job_id in (self.fixtures.done.id, self.fixtures.queued.id) if "job_id" in given else (None,):
                for request in operation.requests(given | ({"job_id": str(job_id)} if job_id else {})):
                    request["headers"] |= {"Authorization": f"Bearer {self.key}", "X-Request-ID": "one"}
                    answer = await self.service.client.request(**request)
                    named = f"{operation} {job_id or ''} {request['params']} {sorted(request['headers'].items())}"
                    # An event's id is a position in the database's history, which goes on. Of a stream without an end
                    # more or less is read, in an order of its own: one event is compared.
                    content = POSITION.sub(b"", answer.content)
                    is_stream = answer.headers.get("Content-Type", "").startswith("text/event-stream")
                    found[named] = (answer.status_code, min(content.split(b"\n\n")) if is_stream else content)
        return found


@pytest.fixture
async def reader(cloned: Cloned) -> AsyncIterator[Reader]:
    async with in_process_service(cloned, APP, requests_per_minute=1_000_000) as service:
        tenant = await service.rig.tenant()
        fixtures = await service.add_fixtures(tenant)
        failing = await service.rig.enqueue(tenant, document_id=fixtures.document.id)
        await service.rig.settle(retry(await service.rig.lease(failing)))
        running = await service.rig.lease(await service.rig.enqueue(tenant, document_id=fixtures.document.id))
        async with service.rig.database.begin(tenant) as tx:
            await tx.pages.draft(running, [new_page(2)])
            await tx.jobs.save_result(fixtures.done.id, {"summary": "short"})
            await tx.jobs.add(
                delivery_job(fixtures.webhook.id, delivery_id=JobId(uuid7()), event="webhook.test", data={"id": "1"})
            )
        async with administer(cloned.admin_url) as admin:
            for table, filling in FILL.items():
                await admin.execute(f"update daira.{table} set {filling}")
        key = await service.key(tenant)
        reader = Reader(service=service, fixtures=fixtures, key=key)
        # The first use of a key is noted.
        await reader.answers()
        yield reader


@asynccontextmanager
async def unchecked(cloned: Cloned) -> AsyncIterator[asyncpg.Connection]:
    """A connection that may store any name, as in a newer schema."""
    async with administer(cloned.admin_url) as admin:
        for check in await admin.fetch(CHECKS):
            await admin.execute(f"alter table {check['table_name']} drop constraint {check['conname']}")
        yield admin


async def test_a_key_more_in_any_column_of_json_changes_no_answer_but_its_own(cloned: Cloned, reader: Reader) -> None:
    before = await reader.answers()
    assert {status for status, _ in before.values()} <= READABLE
    async with administer(cloned.admin_url) as admin:
        columns = {row["name"] for row in await admin.fetch(JSON_COLUMNS)}
        assert columns >= {"jobs.progress", "jobs.last_error", "job_attempts.error", "pages.words"} | OPAQUE
        for name in sorted(columns - OPAQUE):
            await _add_a_key(admin, name)
            assert differing(before, await reader.answers()) == [], name
        for name in sorted(OPAQUE):
            await _add_a_key(admin, name)
    after = await reader.answers()
    assert differing(before, after), "the opaque ones are answered as they are"
    # The longest name comes last in an object.
    added = f',"{NEWER}":{json.dumps(ADDED, separators=(",", ":"))}'.encode()
    assert differing(before, {name: (status, body.replace(added, b"")) for name, (status, body) in after.items()}) == []


@pytest.mark.parametrize("value", ["null", "{}", "[]", "[null]", "[[]]", '{"code": 7}', '"text"', "7"])
async def test_no_form_of_json_in_any_column_is_an_error(cloned: Cloned, reader: Reader, value: str) -> None:
    async with administer(cloned.admin_url) as admin:
        for name in [row["name"] for row in await admin.fetch(JSON_COLUMNS)]:
            table, column = name.split(".")
            await admin.execute(f"update daira.{table} set {column} = '{value}'")
    assert {status for status, _ in (await reader.answers()).values()} <= READABLE
    assert isinstance((await reader.service.rig.claimed(reader.fixtures.queued)).payload, Mapping)


async def test_names_that_are_not_known_are_left_out(cloned: Cloned, reader: Reader) -> None:
    before = await reader.answers()
    async with unchecked(cloned) as admin:
        for name in [row["name"] for row in await admin.fetch(LISTS)]:
            table, column = name.split(".")
            await admin.execute(f"update daira.{table} set {column} = {column} || '{{{NEWER}}}'")
        unknown = json.dumps([{"code": NEWER, "detail": "", "pages": []}])
        await admin.execute("update daira.documents set warnings = warnings || $1", unknown)
        assert differing(before, await reader.answers()) == []
        await admin.execute("update daira.jobs set kind = $1 where state = 'done'", NEWER)
        await admin.execute("update daira.job_attempts set outcome = $1", NEWER)
        await admin.execute("update daira.pages set source = $1, words = replace(words::text, 'ocr', $1)::jsonb", NEWER)
    assert {status for status, _ in (await reader.answers()).values()} <= READABLE


async def _add_a_key(admin: asyncpg.Connection, name: str) -> None:
    table, column = name.split(".")
    done = await admin.execute(ADD_A_KEY.format(table=table, column=column), json.dumps({NEWER: ADDED}))
    assert done != "UPDATE 0", f"there is no row to try it on: {name}"


def differing(before: Mapping[str, tuple[int, bytes]], after: Mapping[str, tuple[int, bytes]]) -> list[str]:
    return [name for name in before if before[name] != after[name]]
