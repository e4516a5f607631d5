"""A client that leaves while something is made for it: the work ends, and gives its turn to others."""

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from app.reading.null import NullRenderer
from app.web.waiting import unless_disconnected
from tests.unit.asgi import scope_of
from tests.unit.served import Served
from tests.unit.waiting import until


class Client:
    """One that asks, listens, and leaves when told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.status: int | None = None
        self._asked = False

    async def receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)

    def get(self, web: Served, path: str) -> asyncio.Task[None]:
        return asyncio.create_task(web.app(scope_of(web.client, path), self.receive, self.send))


class Stuck:
    """A renderer's work that never ends by itself."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0

    async def __call__(self, *_: object, **__: object) -> None:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Stuck:
    stuck = Stuck()
    monkeypatch.setattr(NullRenderer, "page_image", stuck)
    return stuck


async def test_work_ends_with_the_client_it_was_for(web: Served, stuck: Stuck) -> None:
    document = await web.uploaded()
    client = Client()
    request = client.get(web, f"/v1/documents/{document['id']}/pages/1/image")
    await until(lambda: stuck.begun == 1)
    assert not request.done()
    client.left.set()
    await request
    assert (stuck.ended, client.status) == (1, 499)
    assert web.runtime.renditions.turns.idle


async def test_a_client_that_leaves_the_line_is_not_served(web: Served, stuck: Stuck) -> None:
    document = await web.uploaded()
    path = f"/v1/documents/{document['id']}/pages/1/image"
    turns = web.runtime.renditions.turns
    served, waiting = [Client(), Client()], [Client(), Client()]
    requests = [client.get(web, path) for client in served]
    await until(lambda: stuck.begun == 2)
    requests += [client.get(web, path) for client in waiting]
    await until(lambda: sum(map(len, turns._lines.values())) == 2)
    for client in waiting:
        client.left.set()
    await until(lambda: not turns._lines)
    for client in served:
        client.left.set()
    await asyncio.gather(*requests)
    assert (stuck.begun, stuck.ended) == (2, 2)
    assert web.runtime.renditions.turns.idle


async def test_what_the_work_yields_or_raises_is_handed_on() -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    async def fail() -> None:
        raise ZeroDivisionError

    async def seven() -> int:
        return 7

    request = Request({"type": "http"}, never)
    assert await unless_disconnected(request, seven()) == 7
    with pytest.raises(ZeroDivisionError):
        await unless_disconnected(request, fail())


async def test_whoever_cancels_the_request_ends_the_work(stuck: Stuck) -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    task = asyncio.create_task(unless_disconnected(Request({"type": "http"}, never), stuck()))
    await until(lambda: stuck.begun == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stuck.ended == 1


async def test_a_client_that_has_gone_already_is_told_to_nobody() -> None:
    async def gone() -> Any:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        await unless_disconnected(Request({"type": "http"}, gone), asyncio.Event().wait())
