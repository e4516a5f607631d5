"""A web and two workers in production, from docs/deployment.md alone, read 200 documents while one worker is killed.

PgBouncer is a package of Debian. Run it: ./daira test -m slow tests/chaos/test_production_line.py -n0 -s
"""

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Any

import aioboto3
import asyncpg
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis

from app.adapters.postgres.engine import administer
from app.domain.doorbells import Lane
from tests.chaos.behaviours.processes import eventually
from tests.chaos.production import Serving, Site, site
from tests.chaos.progress import say, table
from tests.support.sample_documents import SENTENCE, Sheet, drawn, encoded, pdf
from tests.support.service import upload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TENANTS = ("acme", "bolt", "crane", "dunes", "ember")
EACH = 40
DIGITS = "zero one two three four five six seven eight nine".split()  # noqa: SIM905 - ten words

KILLED_AFTER = 20
"""Documents that are done before: the work is in full swing."""

DONE_WITHIN = 900
"""Seconds, on a busy machine; 90 of them are the lease and the sweep of whoever is killed."""

GRACE = 40
"""Seconds from SIGTERM to the end, as docs/operations.md has it for a container."""

QUIET_WITHIN = 120
"""Seconds. What the killed worker had received of SQS is hidden for 30, and answered then."""

HELD = "select count(*) from daira.jobs where state = 'claimed' and claimed_by = $1"
VICTIMS = "select id::text from daira.jobs where state = 'claimed' and claimed_by = $1"
DONE = "select count(*) from daira.jobs where state = 'done'"
LIVE = "select count(*) from daira.jobs where state in ('queued', 'claimed')"
HISTORIES = """
select j.tenant_id, j.id::text as job_id, j.document_id::text, j.state,
    array(
        select a.outcome || ' ' || a.worker from daira.job_attempts a where a.job_id = j.id order by a.attempt
    ) as history
from daira.jobs j
"""


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A document, and what is to be read in it."""

    tenant: str
    name: str
    content: bytes
    words: list[str]


class Clock:
    """Tells what has come to be, and when."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def tell(self, what: str) -> None:
        say(f"{time.monotonic() - self._began:6.1f} s  {what}")


@dataclass(frozen=True, kw_only=True)
class Sent:
    paper: Paper
    document_id: str
    job_id: str


@pytest.fixture(params=["sqs", "redis"])
def queue(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def line(queue: str) -> Iterator[Site]:
    with site(queue) as line:
        yield line


async def test_a_production_line_reads_200_documents_of_5_tenants_while_a_worker_is_killed(
    line: Site, queue: str
) -> None:
    clock = Clock()
    line.set_up()
    web, victim, survivor = line.serve_all()
    for each in (web, victim, survivor):
        each.until_ready()
    clock.tell(f"{queue}: a web and two workers are ready")
    line.run("daira doctor")
    clock.tell("doctor: no fault")
    clock.tell(line.run("daira selftest").splitlines()[-1])
    with ExitStack() as stack:
        clients = {tenant: stack.enter_context(_client(line, web, tenant)) for tenant in TENANTS}
        await _read_all(line, clients, queue=queue, web=web, victim=victim, survivor=survivor)
    clock = Clock()
    for each in (web, survivor):
        each.process.send_signal(signal.SIGTERM)
        assert each.process.wait(timeout=GRACE) == 0
        clock.tell(f"{'web' if each is web else 'worker'} has stopped with 0")


async def _read_all(
    line: Site, clients: Mapping[str, httpx.Client], *, queue: str, web: Serving, victim: Serving, survivor: Serving
) -> None:
    clock = Clock()
    sending = asyncio.create_task(asyncio.to_thread(_send_all, clients))
    lost = await _kill_at_work(line, victim)
    clock.tell(f"a worker was killed with {len(lost)} jobs")
    sent = await sending
    clock.tell(f"{len(sent)} documents are uploaded")
    await eventually(lambda: _nothing_lives(line), within=DONE_WITHIN, every=0.5)
    clock.tell("no job is live")

    await _prove_histories(line, sent, lost=lost, killed=_name(victim), survivor=_name(survivor))
    _prove_texts(clients, sent)
    _prove_walls(clients, sent)
    _prove_metrics(web, survivor)
    await eventually(lambda: QUIET[queue](line), within=QUIET_WITHIN, every=0.5)
    clock.tell("texts, walls and metrics are right, no bell is left")


def _client(line: Site, web: Serving, tenant: str) -> httpx.Client:
    line.run("daira tenant create acme", tenant=tenant)
    key = line.run("daira key create acme", tenant=tenant).strip()
    return httpx.Client(base_url=web.url, headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False)


def _papers(tenant: str) -> Iterator[Paper]:
    """Prints, scans and texts, each of which names its number and its tenant."""
    for number, form in zip(range(EACH), cycle(("pdf", "txt", "two pages", "png")), strict=False):
        title = f"Letter {DIGITS[number // 10]} {DIGITS[number % 10]} to {tenant}"
        content = {
            "pdf": lambda title=title: pdf(Sheet(lines=(title, SENTENCE))),
            "two pages": lambda title=title: pdf(Sheet(lines=(title,)), Sheet(lines=(SENTENCE,))),
            "txt": lambda title=title: f"{title}\n{SENTENCE}\n".encode(),
            "png": lambda title=title: encoded(drawn(title, SENTENCE)),
        }[form]()
        yield Paper(tenant=tenant, name=f"{number}.{form[:3]}", content=content, words=f"{title} {SENTENCE}".split())


def _send_all(clients: Mapping[str, httpx.Client]) -> list[Sent]:
    with ThreadPoolExecutor(len(clients)) as pool:
        return [sent for each in pool.map(lambda tenant: _send(clients[tenant], tenant), clients) for sent in each]


def _send(client: httpx.Client, tenant: str) -> list[Sent]:
    sent = []
    for paper in _papers(tenant):
        document = upload(client, paper.content, name=paper.name)
        (job,) = document["jobs"]
        sent.append(Sent(paper=paper, document_id=document["id"], job_id=job["id"]))
    return sent


async def _kill_at_work(line: Site, victim: Serving) -> set[str]:
    """The jobs that it had when it died."""
    async with administer(line.admin_url) as admin:
        await eventually(lambda: _at_least(admin, KILLED_AFTER), within=DONE_WITHIN)
        await eventually(lambda: admin.fetchval(HELD, _name(victim)), within=DONE_WITHIN, every=0.001)
        victim.process.kill()
        assert victim.process.wait() == -signal.SIGKILL
        lost = {row["id"] for row in await admin.fetch(VICTIMS, _name(victim))}
    assert lost, "it was between two jobs: nothing was at stake"
    return lost


async def _at_least(admin: asyncpg.Connection, done: int) -> bool:
    return bool(await admin.fetchval(DONE) >= done)


async def _nothing_lives(line: Site) -> bool:
    async with administer(line.admin_url) as admin:
        return bool(await admin.fetchval(LIVE) == 0)


def _name(worker: Serving) -> str:
    """Under which it claims."""
    (started,) = worker.logged("worker_started")
    return str(started["worker"])


async def _prove_histories(line: Site, sent: Sequence[Sent], *, lost: set[str], killed: str, survivor: str) -> None:
    """Each job was done once; only what the killed worker had was begun twice, the second time by the other one."""
    async with administer(line.admin_url) as admin:
        rows = await admin.fetch(HISTORIES)
        bells = await admin.fetchval("select count(*) from daira.doorbells")
    assert {(each.paper.tenant, each.job_id, each.document_id) for each in sent} == {
        (row["tenant_id"], row["job_id"], row["document_id"]) for row in rows
    }
    assert len(rows) == len(TENANTS) * EACH
    assert {row["state"] for row in rows} == {"done"}
    assert bells == 0
    ends = dict.fromkeys((killed, survivor), 0)
    for row in rows:
        *before, last = row["history"]
        assert before == ([f"expired {killed}"] if row["job_id"] in lost else []), row
        outcome, worker = last.split()
        assert outcome == "done", row
        ends[worker] += 1
    table({"documents": len(rows), "done by the killed worker": ends[killed], "by the other": ends[survivor]})
    # Otherwise there were not two that worked.
    assert ends[killed]
    assert ends[survivor] >= len(lost)


def _prove_texts(clients: Mapping[str, httpx.Client], sent: Sequence[Sent]) -> None:
    for each in sent:
        client = clients[each.paper.tenant]
        assert client.get(f"/v1/documents/{each.document_id}").json()["status"] == "ready"
        assert client.get(f"/v1/documents/{each.document_id}/text").text.split() == each.paper.words


def _prove_walls(clients: Mapping[str, httpx.Client], sent: Sequence[Sent]) -> None:
    """A tenant lists its own documents and no other, and finds nothing under the ids of its neighbour's."""
    for tenant, neighbour in pairwise((*TENANTS, TENANTS[0])):
        client = clients[tenant]
        listed = client.get("/v1/documents", params={"limit": 100}).json()
        assert {each["id"] for each in listed["data"]} == {
            each.document_id for each in sent if each.paper.tenant == tenant
        }
        assert listed["next_cursor"] is None
        for each in sent:
            if each.paper.tenant == neighbour:
                for path in ("documents/{0}", "documents/{0}/text", "documents/{0}/content", "jobs/{1}"):
                    answer = client.get("/v1/" + path.format(each.document_id, each.job_id))
                    assert answer.status_code == httpx.codes.NOT_FOUND, (path, answer.text)


def _prove_metrics(web: Serving, survivor: Serving) -> None:
    found = _metrics(web)
    assert found["daira_backlog_up"] == 1
    assert not found["daira_jobs_stuck"]
    assert found["daira_http_request_seconds_count"] > len(TENANTS) * EACH
    assert _metrics(survivor)["daira_jobs_finished_total"]


def _metrics(serving: Serving) -> dict[str, Any]:
    """The sum of each."""
    answer = httpx.get(f"{serving.url}/metrics", trust_env=False, timeout=30)
    assert answer.status_code == httpx.codes.OK
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0) + sample.value
    return sums


async def _sqs_is_quiet(line: Site) -> bool:
    told = line.settings
    session = aioboto3.Session(
        aws_access_key_id=told["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=told["AWS_SECRET_ACCESS_KEY"],
        region_name=told["DAIRA_AWS_REGION"],
    )
    names = [f"ApproximateNumberOfMessages{which}" for which in ("", "NotVisible", "Delayed")]
    left = 0
    async with session.client("sqs", endpoint_url=told["DAIRA_AWS_ENDPOINT_URL"]) as client:
        for lane in Lane:
            queue = (await client.get_queue_url(QueueName=f"daira-{lane}"))["QueueUrl"]
            answer = await client.get_queue_attributes(QueueUrl=queue, AttributeNames=names)
            left += sum(map(int, answer["Attributes"].values()))
    return left == 0


async def _redis_is_quiet(line: Site) -> bool:
    async with Redis.from_url(line.settings["DAIRA_QUEUE_URL"]) as client:
        left = [await client.zcard(f"daira:{{{lane}}}:{key}") for lane in Lane for key in ("turns", "later")]
    return not any(left)


QUIET = {"sqs": _sqs_is_quiet, "redis": _redis_is_quiet}
