"""Events of jobs as they happen: server-sent events, resumed after the last one when the connection breaks."""

import json
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent

from app.client.calls import ApiCalls

STATE = "state"
ENDED = frozenset({"done", "failed", "cancelled"})

NOTHING_MORE = 204
PAUSE = 2.0
"""Seconds, where the server does not say."""

# The server says something every 15 s, if only that it is there.
_QUIET = httpx.Timeout(30, read=45)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    name: str
    """`state` or `progress`."""
    data: dict[str, Any]
    """The data: for `state` the job as it is now; for `progress` its `job_id`, `done`, `total` and `unit`."""
    id: str
    """To go on behind this one, in another run of the program."""


def follow(calls: ApiCalls, path: str, *, last_event_id: str | None, of_one: bool) -> Generator[StreamEvent]:
    """`of_one`: the stream is one job's, and over when that has ended."""
    last, pause = last_event_id, PAUSE
    while True:
        with closing(calls.stream(path, headers=_headers(last), timeout=_QUIET)) as response:
            if response.status_code == NOTHING_MORE:
                return
            for sse in _until_broken(response):
                last = sse.id or last
                pause = pause if sse.retry is None else sse.retry / 1000
                if not sse.data:
                    continue
                event = StreamEvent(name=sse.event, data=json.loads(sse.data), id=last or "")
                yield event
                if of_one and event.name == STATE and event.data["state"] in ENDED:
                    return
        calls.patience.pause(pause)


def _until_broken(response: httpx.Response) -> Iterator[ServerSentEvent]:
    try:
        yield from EventSource(response).iter_sse()
    except httpx.TransportError:
        return


def _headers(last: str | None) -> dict[str, str]:
    asked = {"Accept": "text/event-stream"}
    return asked | {"Last-Event-ID": last} if last else asked
