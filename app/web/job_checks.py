"""Checks of job requests: short ones here, all others in a child process, one of a tenant at a time.

A JSON Schema of some kilobytes may take seconds to check, and a body of 256 KiB long to look through. In the event loop
or in a thread, all tenants would wait for that.
"""

from typing import Any

from fastapi import Request

from app.domain.errors import Invalid
from app.domain.ids import TenantId
from app.ports.calls import BoundedCaller
from app.services.fair_queue import FairSemaphore
from app.services.uploads import JobRequest
from app.web.bodies import SMALL_BODY
from app.web.job_requests import parse_request, parse_requests
from app.web.waiting import unless_disconnected

FUNCTION = "app.web.job_checks:check"

AT_ONCE = 1
"""Child processes. They work beside the event loop, on a second core."""

CPU_SECONDS = 2
"""CPU time for all schemas of one request. Twenty schemas with fifteen patterns each take a fifth of it."""

SHORT = 1_024
MOST_PARTS = 32
"""Objects, arrays and values of a schema that is checked in the event loop: 0.1 ms each."""


class JobChecks:
    def __init__(self, caller: BoundedCaller) -> None:
        self._caller = caller
        self.turns = FairSemaphore(at_once=AT_ONCE, share=1, what="check")

    async def request(self, http: Request, tenant_id: TenantId, text: str) -> JobRequest:
        """Parse a job's request from a body, unless the client leaves.

        Raises Invalid, and TooMany and Unavailable as turns do.
        """
        if is_short(text):
            return parse_request(text)
        (request,) = await unless_disconnected(http, self._called(tenant_id, text, field=""))
        return request

    async def requests(self, http: Request, tenant_id: TenantId, text: str) -> list[JobRequest]:
        """Parse the requests of an upload's `jobs` field. Raises as `request` does."""
        if is_short(text):
            return parse_requests(text)
        return await unless_disconnected(http, self._called(tenant_id, text, field="jobs"))

    async def _called(self, tenant_id: TenantId, text: str, *, field: str) -> list[JobRequest]:
        async with self.turns.counted_turn(tenant_id):
            answer = await self._caller.call({"text": text, "field": field})
        if answer is None:
            raise Invalid(
                f"checking the schemas takes more than {CPU_SECONDS} s of CPU time; simplify them", pointer=f"/{field}"
            )
        if "invalid" in answer:
            raise Invalid(answer["invalid"], pointer=answer["pointer"])
        return [JobRequest(kind=kind, payload=payload) for kind, payload in answer["requests"]]


def is_short(text: str) -> bool:
    """Return True if any request of this text is checked within 5 ms."""
    if len(text) > SMALL_BODY:
        return False
    # Only `extract` has a schema. With an escape, its name and that of a pattern could be spelled otherwise.
    if "\\u" not in text and "extract" not in text:
        return True
    parts = sum(map(text.count, "{[,"))
    return len(text) <= SHORT and parts <= MOST_PARTS and "\\u" not in text and "pattern" not in text


def check(asked: dict[str, Any]) -> dict[str, Any]:
    """Parse requests in the child process."""
    text = asked["text"]
    try:
        requests = parse_requests(text) if asked["field"] else [parse_request(text)]
    except Invalid as fault:
        return {"invalid": str(fault), "pointer": fault.pointer}
    return {"requests": [[request.kind, request.payload] for request in requests]}
