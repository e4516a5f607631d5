"""Every operation of the OpenAPI document, asked for another tenant's things: it answers as for what nobody has.

Nothing is listed here by hand: an operation or a parameter that comes is tried, or the test says what it must be told.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.domain.ids import uuid7
from tests.security.operations import Operation, operations
from tests.security.tenant_fixtures import InProcessService, TenantFixtures, in_process_service, new_app, unknown_values
from tests.support.databases import Databases

APP = new_app()
OPERATIONS = operations(APP.openapi())

ASKS = "one-and-the-same"
"""The request id of all requests, so that answers can be compared byte for byte."""

PATIENCE = 20

# What a successful request makes is new each time: its ids, times and digests are not the answer's own words.
MADE = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|whsec_[\w+/]{43}=|\d{4}-\d\d-\d\dT[0-9:.]+Z")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(databases: Databases) -> AsyncIterator[InProcessService]:
    """One for all tests: each has tenants of its own."""
    async with databases.clone() as cloned, in_process_service(cloned, APP) as service:
        yield service


class Caller:
    def __init__(self, service: InProcessService, key: str) -> None:
        self._service = service
        self._key = key

    async def answers(self, operation: Operation, given: dict[str, Any]) -> list[httpx.Response]:
        return [await self._answer(request) for request in operation.requests(given)]

    async def _answer(self, request: dict[str, Any]) -> httpx.Response:
        request["headers"] |= {"Authorization": f"Bearer {self._key}", "X-Request-ID": ASKS}
        async with asyncio.timeout(PATIENCE):
            return await self._service.client.request(**request)


def told(answer: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    """All that a caller can tell answers apart by."""
    headers = sorted(answer.headers.multi_items())
    if answer.is_success and answer.request.method == "POST":
        return answer.status_code, MADE.sub(b"new", answer.content), [h for h in headers if h[0] != "location"]
    return answer.status_code, answer.content, headers


async def state_of(service: InProcessService, theirs: TenantFixtures) -> list[object]:
    async with service.rig.database.begin(theirs.tenant_id) as tx:
        documents = await tx.documents.newest(limit=100)
        return [
            documents,
            await tx.jobs.newest(),
            await tx.pages.all(theirs.document.id),
            await tx.keys.all(),
            await tx.webhooks.newest(limit=100),
        ]


@pytest.mark.threat(39, 46, 77)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_anothers_ids_are_answered_like_unknown_ones_and_ones_own_are_not(
    service: InProcessService, operation: Operation
) -> None:
    globex, acme = [await service.rig.tenant(f"{name}-{uuid7().hex}") for name in ("globex", "acme")]
    caller = Caller(service, await service.key(globex))
    own, theirs = await service.add_fixtures(globex), await service.add_fixtures(acme)
    before = await state_of(service, theirs)
    for names in operation.ways_to_name():
        unknown = await caller.answers(operation, chosen(unknown_values(theirs.document.created_at), names))
        foreign = await caller.answers(operation, chosen(theirs.values(), names))
        mine = await caller.answers(operation, chosen(own.values(), names))
        if names:
            assert [told(answer) for answer in foreign] == [told(answer) for answer in unknown]
            assert told(mine[0]) != told(unknown[0]), "it does not matter here what is named"
        assert not [mark for answer in foreign + mine for mark in theirs.marks if mark in shown(answer)]
    assert await state_of(service, theirs) == before


def chosen(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {name: values[of] for name, of in names.items()}


def shown(answer: httpx.Response) -> str:
    return f"{answer.headers}\n{answer.text}"


@pytest.mark.threat(39)
async def test_every_parameter_is_known_to_name_something_or_nothing() -> None:
    """A new one that names something of a tenant's belongs in the fixtures, any other in `PLAIN`."""
    asked = {of for operation in OPERATIONS for of in operation.named.values()}
    assert asked - set(unknown_values(datetime.now(UTC))) == set(), "say what these are"
    assert asked >= {"document_id", "job_id", "file", "filename"}


@pytest.mark.threat(46, 74)
async def test_no_operation_asks_for_a_tenant() -> None:
    """The tenant comes from the credential: there is no path, query or body that could name another."""
    assert [str(operation) for operation in OPERATIONS if any("tenant" in name for name in operation.places)] == []


@pytest.mark.threat(71)
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"])
async def test_what_needs_no_key_shows_nothing_of_any_tenant(service: InProcessService, path: str) -> None:
    theirs = await service.add_fixtures(await service.rig.tenant(f"acme-{uuid7().hex}"))
    answer = await service.client.get(path)
    assert answer.status_code == 200
    assert not [mark for mark in theirs.marks if mark in shown(answer)]


@pytest.mark.threat(39, 46)
@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.path.startswith("/v1")], ids=str)
async def test_every_operation_on_tenants_asks_who_calls(service: InProcessService, operation: Operation) -> None:
    theirs = await service.add_fixtures(await service.rig.tenant(f"acme-{uuid7().hex}"))
    for key in ("", f"daira_{theirs.tenant_id}_{'x' * 43}"):
        for answer in await Caller(service, key).answers(operation, chosen(theirs.values(), operation.named)):
            assert answer.status_code == 401
