"""Many at the same time, and cut off in the middle, over real HTTP: one document, one job, and never a 5xx."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from app.adapters.postgres.engine import administer
from app.domain.ids import uuid7
from tests.support.api_keys import new_key
from tests.support.databases import Cloned, Databases
from tests.support.folders import open_folder
from tests.support.sample_documents import Sheet, pdf
from tests.support.service import Service, ended, serving, serving_again

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

AT_ONCE = 20
SWEPT_SOON = {"DAIRA_SWEEP_SECONDS": "2"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(databases: Databases) -> AsyncIterator[Cloned]:
    async with databases.clone() as cloned:
        yield cloned


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(database: Cloned) -> AsyncIterator[Service]:
    with open_folder() as folder, serving(database, folder) as service:
        yield service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def globex(service: Service) -> str:
    """The key of another tenant."""
    return new_key(service.database_url, "globex")


def a_page() -> bytes:
    """One that nobody has sent before, and that needs no recognition."""
    return pdf(Sheet(lines=(f"Hello {uuid7()}",)))


def crowd(service: Service, key: str | None = None) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=service.url,
        headers={"Authorization": f"Bearer {key or service.api_key}"},
        timeout=60,
        trust_env=False,
        limits=httpx.Limits(max_connections=2 * AT_ONCE),
    )


async def send(client: httpx.AsyncClient, content: bytes, **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post("/v1/documents", files={"file": ("hello.pdf", content)}, headers=sent)


async def read_once(client: httpx.AsyncClient, document_id: str) -> None:
    """One job, one attempt, one text."""
    (job,) = (await client.get("/v1/jobs", params={"document_id": document_id})).json()["data"]
    told = (await client.get(f"/v1/jobs/{job['id']}", params={"wait": 30})).json()
    assert (told["state"], len(told["history"])) == ("done", 1)
    assert (await client.get(f"/v1/documents/{document_id}/text")).text.startswith("Hello")


@pytest.mark.threat(12)
async def test_twenty_with_one_key_are_one_document_one_job_and_one_reading(service: Service) -> None:
    content, key = a_page(), str(uuid7())
    async with crowd(service) as client:
        answers = await asyncio.gather(*(send(client, content, Idempotency_Key=key) for _ in range(AT_ONCE)))
        assert Counter(answer.status_code for answer in answers) == {202: AT_ONCE}
        assert sum(answer.headers.get("Idempotency-Replayed") == "true" for answer in answers) == AT_ONCE - 1
        assert len({answer.headers["Location"] for answer in answers}) == 1
        (document_id,) = {answer.json()["id"] for answer in answers}
        await read_once(client, document_id)


@pytest.mark.threat(12)
async def test_one_byte_changed_under_the_same_key_makes_no_second_document(service: Service) -> None:
    content, key = a_page(), str(uuid7())
    async with crowd(service) as client:
        first = await send(client, content, Idempotency_Key=key)
        other = await send(client, content[:-1] + b" ", Idempotency_Key=key)
        assert (first.status_code, other.status_code) == (202, 422)
        assert other.json()["code"] == "idempotency_mismatch"
        newest = (await client.get("/v1/documents", params={"limit": 1})).json()["data"]
        assert [document["id"] for document in newest] == [first.json()["id"]]


@pytest.mark.threat(10)
async def test_twenty_with_the_same_bytes_are_one_document_and_another_tenants_is_another(
    service: Service, globex: str
) -> None:
    content = a_page()
    async with crowd(service) as client:
        answers = await asyncio.gather(*(send(client, content) for _ in range(AT_ONCE)))
        assert Counter(answer.status_code for answer in answers) == {202: 1, 200: AT_ONCE - 1}
        assert Counter(answer.json()["deduplicated"] for answer in answers) == {False: 1, True: AT_ONCE - 1}
        (document_id,) = {answer.json()["id"] for answer in answers}
        await read_once(client, document_id)
    async with crowd(service, globex) as client:
        theirs = await send(client, content)
        assert (theirs.status_code, theirs.json()["deduplicated"]) == (202, False)
        assert theirs.json()["id"] != document_id
        await read_once(client, theirs.json()["id"])


@pytest.mark.threat(11)
async def test_the_same_key_of_two_tenants_at_once_is_two_documents(service: Service, globex: str) -> None:
    content, key = a_page(), str(uuid7())
    async with crowd(service) as ours, crowd(service, globex) as theirs:
        answers = await asyncio.gather(*(send(c, content, Idempotency_Key=key) for c in [ours, theirs] * 5))
    assert {answer.status_code for answer in answers} == {202}
    assert Counter("Idempotency-Replayed" in answer.headers for answer in answers) == {True: 8, False: 2}
    assert len({answer.json()["id"] for answer in answers[::2]}) == 1
    assert len({answer.json()["id"] for answer in answers}) == 2


@pytest.mark.threat(12)
@pytest.mark.parametrize("key", [None, "one"])
async def test_a_removal_amid_the_same_upload_is_before_or_after_it(service: Service, key: str | None) -> None:
    """What is there in the end has its bytes and comes to its text; no upload was answered with 404 or a 5xx."""
    content = a_page()
    headers = {} if key is None else {"Idempotency_Key": f"{key} {uuid7()}"}
    async with crowd(service) as client:
        for _ in range(5):
            document_id = (await send(client, content, **headers)).json()["id"]
            uploads, removals = await asyncio.gather(
                asyncio.gather(*(send(client, content, **headers) for _ in range(AT_ONCE // 2))),
                asyncio.gather(*(client.delete(f"/v1/documents/{document_id}") for _ in range(3))),
            )
            assert {answer.status_code for answer in uploads} <= {200, 202}
            assert Counter(answer.status_code for answer in removals) == {204: 1, 404: 2}
            last = await send(client, content, **headers)
            kept = await client.get(f"/v1/documents/{last.json()['id']}/content")
            assert (kept.status_code, kept.content) == (200, content)
            await read_once(client, last.json()["id"])


async def test_a_failed_document_that_is_removed_amid_another_try_is_uploaded_anew(service: Service) -> None:
    """The try adds a job to the document that it has found: it must not find it gone by then."""
    content = a_page().replace(b"/Catalog", b"/Nothing").replace(b"/Pages", b"/Empty")[:60]
    async with crowd(service) as client:
        for _ in range(5):
            first = (await send(client, content)).json()
            await client.get(f"/v1/jobs/{first['jobs'][0]['id']}", params={"wait": 30})
            answers = await asyncio.gather(
                *(send(client, content) for _ in range(AT_ONCE // 2)), client.delete(f"/v1/documents/{first['id']}")
            )
            assert {answer.status_code for answer in answers} <= {200, 202, 204}


async def test_a_job_asked_for_by_twenty_with_one_key_is_one(service: Service) -> None:
    async with crowd(service) as client:
        document = (await send(client, a_page())).json()
        await read_once(client, document["id"])

        async def ask() -> httpx.Response:
            request = {"kind": "ocr", "mode": "force"}
            headers = {"Idempotency-Key": document["id"]}
            return await client.post(f"/v1/documents/{document['id']}/jobs", json=request, headers=headers)

        answers = await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
        assert Counter(answer.status_code for answer in answers) == {202: AT_ONCE}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == AT_ONCE - 1


async def test_killed_right_after_the_answer_the_job_is_done_by_the_next_process(databases: Databases) -> None:
    async with databases.clone() as cloned:
        with open_folder() as folder:
            content, headers = a_page(), {"Idempotency-Key": "mine"}
            with serving(cloned, folder) as service, service.client() as client:
                first = client.post("/v1/documents", files={"file": ("a.pdf", content)}, headers=headers)
                service.stop(signal.SIGKILL)
            assert first.status_code == 202
            with (
                serving_again(cloned, folder, api_key=service.api_key, **SWEPT_SOON) as again,
                again.client() as client,
            ):
                replayed = client.post("/v1/documents", files={"file": ("a.pdf", content)}, headers=headers)
                assert (replayed.status_code, replayed.headers["Idempotency-Replayed"]) == (202, "true")
                assert replayed.json()["id"] == first.json()["id"]
                assert ended(client, first.json()["jobs"][0], seconds=60)["state"] == "done"


async def test_killed_before_the_commit_nothing_is_there_and_the_key_is_free(databases: Databases) -> None:
    async with databases.clone() as cloned:
        with open_folder() as folder:
            content, headers = a_page(), {"Idempotency-Key": "mine"}
            with serving(cloned, folder) as service:
                await _killed_amid(service, cloned, content, headers)
            with (
                serving_again(cloned, folder, api_key=service.api_key, **SWEPT_SOON) as again,
                again.client() as client,
            ):
                assert client.get("/v1/documents").json()["data"] == []
                assert client.get("/v1/jobs").json()["data"] == []
                answer = client.post("/v1/documents", files={"file": ("a.pdf", content)}, headers=headers)
                assert (answer.status_code, "Idempotency-Replayed" in answer.headers) == (202, False)
                assert ended(client, answer.json()["jobs"][0])["state"] == "done"


async def _killed_amid(service: Service, cloned: Cloned, content: bytes, headers: dict[str, str]) -> None:
    """The document's row is written, the job's can't be: there the process is killed."""
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query ilike 'insert into%jobs%'"
    # Within a transaction this view stands still: another connection looks.
    async with administer(cloned.admin_url) as admin, administer(cloned.admin_url) as watcher, crowd(service) as client:
        locked = admin.transaction()
        await locked.start()
        await admin.execute("lock table daira.jobs in exclusive mode")
        sent = asyncio.create_task(client.post("/v1/documents", files={"file": ("a.pdf", content)}, headers=headers))
        async with asyncio.timeout(30):
            while not await watcher.fetchval(waiting):
                await asyncio.sleep(0.05)
        service.process.kill()
        with pytest.raises(httpx.TransportError):
            await sent
        await locked.rollback()
