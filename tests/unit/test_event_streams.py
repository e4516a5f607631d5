"""Streams of events, as a client reads them: complete, in order, resumable, and nobody else's."""

import asyncio
from typing import Any
from uuid import UUID

import fastapi.routing
import fastapi.sse
import pytest
from starlette.types import Receive, Scope, Send

from app.domain.jobs import Progress
from app.domain.leases import LeaseBeat
from app.ports.leases import Leases
from app.services.events import follower, stream, watcher
from app.telemetry import Metrics
from app.web import request_log
from tests.support.rig import LEASE
from tests.unit.served import ACME, Served, served
from tests.unit.streams import StreamReader
from tests.unit.waiting import until

ALL = "/v1/events"


def job_of(document: dict[str, Any]) -> str:
    identity: str = document["jobs"][0]["id"]
    return identity


def of_job(document: dict[str, Any]) -> str:
    return f"/v1/jobs/{job_of(document)}/events"


async def cancel(web: Served, document: dict[str, Any]) -> None:
    assert (await web.client.post(f"/v1/jobs/{job_of(document)}/cancel")).status_code == 200


def leases_of(web: Served) -> Leases:
    return web._execution.leases


async def test_a_stream_begins_with_the_live_jobs_and_goes_on_with_what_becomes_of_them(web: Served) -> None:
    ended, waiting = await web.uploaded(), await web.uploaded()
    await web.read(ended)
    async with StreamReader(web, ALL) as reader:
        first = await reader.next()
        assert (first.event, first.body) == ("state", waiting["jobs"][0])
        new = await web.uploaded()
        assert await reader.states(1) == [(job_of(new), "queued")]
        await web.claim(new)
        assert await reader.states(1) == [(job_of(new), "claimed")]
        await cancel(web, waiting)
        assert await reader.states(1) == [(job_of(waiting), "cancelled")]
    assert reader.headers["content-type"].startswith("text/event-stream")
    assert reader.headers["x-accel-buffering"] == "no"
    assert "no-cache" in reader.headers["cache-control"]


async def test_a_state_is_the_job_as_it_is_read_without_its_history(web: Served) -> None:
    document = await web.uploaded()
    async with StreamReader(web, of_job(document)) as reader:
        await web.read(document)
        await until(lambda: reader.task is not None and reader.task.done())
        (*_, last) = await reader.rest()
    read = (await web.client.get(f"/v1/jobs/{job_of(document)}")).json()
    assert last.body == {name: value for name, value in read.items() if name != "history"}


async def test_who_comes_again_with_the_last_id_is_told_what_it_missed_once(web: Served) -> None:
    documents = [await web.uploaded() for _ in range(3)]
    async with StreamReader(web, ALL) as reader:
        await reader.states(3)
        last = await reader.position()
    await web.read(documents[0])
    await cancel(web, documents[1])
    async with StreamReader(web, ALL, last=last) as again:
        assert await again.states(2) == [(job_of(documents[0]), "done"), (job_of(documents[1]), "cancelled")]
        last = await again.position()
    async with StreamReader(web, ALL, last=last) as third:
        await cancel(web, documents[2])
        assert await third.states(1) == [(job_of(documents[2]), "cancelled")]


async def test_a_quiet_stream_too_says_where_to_go_on_from(web: Served) -> None:
    async with StreamReader(web, ALL) as reader:
        last = await reader.position()
        assert await reader.nothing()
    document = await web.uploaded()
    await web.read(document)
    async with StreamReader(web, ALL, last=last) as again:
        assert await again.states(1) == [(job_of(document), "done")]


async def test_only_the_last_event_of_a_batch_says_where_to_go_on_from(web: Served) -> None:
    """A connection that is cut amid a batch repeats some of it, and loses none."""
    for _ in range(3):
        await web.uploaded()
    async with StreamReader(web, ALL) as reader:
        ids = [(await reader.next()).id for _ in range(3)]
    assert ids[:2] == [None, None]
    assert ids[2]


@pytest.mark.parametrize("last", ["nonsense", "999999999", "", "\x00", "1.2.3-4", "9" * 5000])
async def test_an_id_that_nobody_knows_begins_anew(web: Served, last: str) -> None:
    document = await web.uploaded()
    async with StreamReader(web, ALL, last=last) as reader:
        assert await reader.states(1) == [(job_of(document), "queued")]
    async with StreamReader(web, of_job(document), last=last) as reader:
        assert await reader.states(1) == [(job_of(document), "queued")]


async def test_a_jobs_stream_ends_with_the_job_and_is_not_begun_again(web: Served) -> None:
    document, other = await web.uploaded(), await web.uploaded()
    async with StreamReader(web, of_job(document)) as reader:
        assert await reader.states(1) == [(job_of(document), "queued")]
        await cancel(web, other)
        await web.read(document)
        assert [sent.body["state"] for sent in await reader.rest()][-1] == "done"
    async with StreamReader(web, of_job(document), last=reader.last) as again:
        assert await again.rest() == []
    assert again.status == 204
    async with StreamReader(web, of_job(document)) as anew:
        assert [sent.body["state"] for sent in await anew.rest()] == ["done"]


async def test_who_was_cut_off_before_the_end_is_told_it(web: Served) -> None:
    document = await web.uploaded()
    async with StreamReader(web, of_job(document)) as reader:
        last = await reader.position()
    await web.read(document)
    async with StreamReader(web, of_job(document), last=last) as again:
        assert [sent.body["state"] for sent in await again.rest()] == ["done"]


async def test_a_stream_of_a_job_that_is_nobodys_or_anothers_is_not_found(web: Served) -> None:
    document = await web.uploaded()
    bolt = await web.key_of("bolt")
    for path, key in ((f"/v1/jobs/{UUID(int=7)}/events", None), (of_job(document), bolt), ("/v1/jobs/x/events", None)):
        async with StreamReader(web, path, key=key) as reader:
            await reader.rest()
        assert reader.status == 404


async def test_nothing_of_another_tenant_comes_through(web: Served) -> None:
    bolt = await web.key_of("bolt")
    mine = await web.uploaded()
    async with StreamReader(web, ALL, key=bolt) as theirs, StreamReader(web, ALL) as reader:
        await reader.states(1)
        await theirs.position()
        await web.read(mine)
        answer = await web.client.post("/v1/documents", files={"file": ("a.pdf", b"%PDF-1.7 bolt")}, headers=bolt)
        assert await theirs.states(1) == [(job_of(answer.json()), "queued")]
        assert (await reader.next("state")).body["id"] == job_of(mine)
    async with StreamReader(web, ALL, key=bolt, last="1") as again:
        assert await again.states(1) == [(job_of(answer.json()), "queued")]
        assert await again.nothing()


async def test_progress_is_told_as_it_is_reached(web: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert watcher.PROGRESS_EVERY == 1
    monkeypatch.setattr(watcher, "PROGRESS_EVERY", 0.05)
    document = await web.uploaded()
    lease = (await web.claim(document)).lease
    async with StreamReader(web, ALL) as all_jobs, StreamReader(web, of_job(document)) as of_one:
        for done in (1, 2):
            await leases_of(web).beat(
                [LeaseBeat(lease=lease, progress=Progress(done=done, total=3, unit="page"))], lease=LEASE
            )
            for reader in (all_jobs, of_one):
                sent = await reader.next("progress")
                assert sent.body == {"job_id": job_of(document), "done": done, "total": 3, "unit": "page"}
                assert sent.id is None


async def test_a_key_that_is_revoked_ends_the_stream(web: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stream.ASK_AGAIN <= 30
    monkeypatch.setattr(stream, "ASK_AGAIN", 0.05)
    key = await web.runtime.tenants.issue_key(ACME, name="mine")
    async with StreamReader(web, ALL, key={"Authorization": f"Bearer {key}"}) as reader:
        await reader.position()
        mine = next(each for each in await web.runtime.tenants.keys(ACME) if each.name == "mine")
        await web.runtime.tenants.revoke_key(ACME, mine.id)
        await reader.rest()
    assert reader.status == 200


async def test_streams_beyond_the_limit_are_refused_until_one_ends() -> None:
    async with served(max_event_streams=2) as web:
        bolt = await web.key_of("bolt")
        async with StreamReader(web, ALL) as first:
            await first.position()
            async with StreamReader(web, ALL) as second, StreamReader(web, ALL, key=bolt) as others:
                await second.position()
                await others.position()
                refused = await web.client.get(ALL)
                assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
                assert int(refused.headers["Retry-After"]) > 0
            async with StreamReader(web, ALL) as third:
                await third.position()
        assert not web.runtime.events._open


async def test_streams_end_when_the_service_stops(web: Served) -> None:
    document = await web.uploaded()
    async with StreamReader(web, ALL) as reader, StreamReader(web, of_job(document)) as of_one:
        await reader.position()
        await of_one.position()
        web.runtime.stopping.set()
        await reader.rest()
        await of_one.rest()


async def test_a_stream_of_a_job_that_is_deleted_ends(web: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "CHECK_EVERY", 0.05)
    document = await web.uploaded()
    async with StreamReader(web, of_job(document)) as reader:
        await reader.states(1)
        assert (await web.client.delete(f"/v1/documents/{document['id']}")).status_code == 204
        assert await reader.rest() == []


async def test_an_end_that_no_change_tells_of_is_found(web: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The web of the version before notes no change when it cancels."""
    monkeypatch.setattr(watcher, "CHECK_EVERY", 0.05)
    monkeypatch.setattr(follower.Subscription, "tell", lambda *_: None)
    document = await web.uploaded()
    async with StreamReader(web, of_job(document)) as reader:
        await reader.states(1)
        await cancel(web, document)
        assert [sent.body["state"] for sent in await reader.rest()] == ["cancelled"]


async def test_a_reader_that_takes_nothing_costs_a_bounded_amount_and_misses_nothing(
    web: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "MOST_UNTAKEN", 3)
    monkeypatch.setattr(stream, "PAGE", 4)
    kept: list[int] = []
    tell = follower.Subscription.tell

    def noting(self: follower.Subscription, jobs: Any) -> None:
        tell(self, jobs)
        kept.append(len(self._jobs))

    monkeypatch.setattr(follower.Subscription, "tell", noting)
    async with StreamReader(web, ALL) as reader:
        await reader.position()
        reader.reads.clear()
        documents = [await web.uploaded() for _ in range(30)]
        for document in documents:
            await cancel(web, document)
        reader.reads.set()
        ends: dict[str, str] = {}
        while len(ends) < 30 or set(ends.values()) != {"cancelled"}:
            ((job, state),) = await reader.states(1)
            assert ends.get(job) != state, "told twice"
            ends[job] = state
    assert max(kept) <= 3


async def test_a_reader_that_leaves_is_followed_by_nobody(web: Served) -> None:
    async with StreamReader(web, ALL) as reader:
        await reader.position()
        assert list(web.runtime.jobs.watching._watchers) == [ACME]
    await until(lambda: not web.runtime.jobs.watching._watchers)
    assert not web.runtime.events._open


async def test_a_stream_stays_open_with_comments(web: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fastapi.sse._PING_INTERVAL == 15
    monkeypatch.setattr(fastapi.routing, "_PING_INTERVAL", 0.05)
    async with StreamReader(web, ALL) as reader:
        await reader.position()
        async with asyncio.timeout(10):
            while (await reader._sent.get()).comment is None:
                pass


@pytest.mark.parametrize("method", ["HEAD", "POST", "DELETE"])
async def test_other_methods_are_answered_with_those_there_are(web: Served, method: str) -> None:
    answer = await web.client.request(method, ALL)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")


async def test_how_long_a_reader_stays_is_not_how_long_its_answer_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("app.web.request_log.time.perf_counter", lambda: clock[0])
    metrics = Metrics()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        clock[0] += 2
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        clock[0] += 3600
        await send({"type": "http.response.body"})

    async def take(_: object) -> None: ...

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    await request_log.RequestLog(app, metrics=metrics)(scope, None, take)  # type: ignore[arg-type]
    labels = {"route": "none", "method": "GET", "status": "200"}
    assert metrics.registry.get_sample_value("daira_http_request_seconds_sum", labels) == 2
