"""The files that one upload and one doorbell pass through, each of which a reader of the code has to open.

Run: ./daira bench doors [--most N]

The service runs in this process on memory adapters, with the engine that reads nothing; calls of functions under `app/`
are counted. An upload is counted from the ASGI call of its POST to that call's return, in its own task and in those
that it starts. A doorbell is counted from the queue's answer (the first value naming the job that a task outside of the
request returns) until the job is settled and acknowledged, in all tasks that work meanwhile. Code that only runs at
first use, such as a late import, has run before. With `--most` the program fails if an upload enters more files.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import structlog
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

import app
from app.asgi import create_app
from app.domain.ids import tenant_id
from app.settings import Settings

ROOT = Path(str(app.__file__)).parent
SETTLING = 30.0
"""Seconds that a job may take."""

CALM = 0.5
"""Seconds after which loops that begin with the service, or continue after a job, are idle again."""

in_upload: ContextVar[bool] = ContextVar("in_upload", default=False)
"""Set for the request's task; tasks and threads that it starts inherit it."""

in_question: ContextVar[bool] = ContextVar("in_question", default=False)
"""Set for the requests with which this program checks whether the job has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    file: str
    in_upload: bool
    answered: str
    """The function's return value as text; empty for a call."""


@dataclass(slots=True)
class Trace:
    calls: list[Call] = field(default_factory=list)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def of_the_upload(self) -> list[str]:
        """The file of each call, in order."""
        return [call.file for call in self.calls if call.in_upload and not call.answered]

    def of_the_doorbell(self, job_id: str) -> list[str]:
        outside = [call for call in self.calls if not call.in_upload]
        first = next(n for n, call in enumerate(outside) if job_id in call.answered)
        return [outside[first].file] + [call.file for call in outside[first:] if not call.answered]

    def _note(self, frame: FrameType, event: str, value: Any) -> None:
        file = frame.f_code.co_filename
        if event not in {"call", "return"} or not file.startswith(f"{ROOT}/") or in_question.get():
            return
        uploading = in_upload.get()
        if event == "call":
            self.calls.append(Call(file=file, in_upload=uploading, answered=""))
        elif not uploading and value is not None:
            self.calls.append(Call(file=file, in_upload=False, answered=repr(value)))


async def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--most", type=int, metavar="N", help="fail if an upload enters more files than N")
    options = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="daira-bench-") as folder:
        upload, doorbell = await _traced(Path(folder))
    uploaded = _show("an upload, from its POST to its answer and ring", upload)
    _show("a doorbell, from the queue's answer to the settled job", doorbell)
    if options.most is not None and uploaded > options.most:
        print(f"an upload enters {uploaded} files: {options.most} are allowed", file=sys.stderr)
        return 1
    return 0


async def _traced(folder: Path) -> tuple[list[str], list[str]]:
    memory = "memory://"
    settings = Settings(
        _env_file=None, database_url=memory, queue_url=memory, blob_url=memory, ocr="null", data_dir=folder
    )
    service = create_app(settings)
    async with service.router.lifespan_context(service):
        tenants, tenant = service.state.runtime.tenants, tenant_id("acme")
        await tenants.create(tenant)
        key = await tenants.issue_key(tenant, name="bench")
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(_marking(service)),
            base_url="http://daira.test",
            headers={"Authorization": f"Bearer {key}"},
        ) as client:
            await _upload(client, b"to warm up")
            await asyncio.sleep(CALM)
            trace = Trace()
            with trace.recorded():
                job_id = await _upload(client, b"hello world")
    return trace.of_the_upload(), trace.of_the_doorbell(job_id)


def _marking(service: FastAPI) -> Any:
    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        mark = in_upload if scope["method"] == "POST" else in_question
        token = mark.set(True)
        try:
            await service(scope, receive, send)
        finally:
            mark.reset(token)

    return call


async def _upload(client: httpx.AsyncClient, content: bytes) -> str:
    """Upload, wait until the job has ended, and return its id."""
    answer = await client.post("/v1/documents", files={"file": ("letter.txt", content)})
    answer.raise_for_status()
    job_id = str(answer.json()["jobs"][0]["id"])
    async with asyncio.timeout(SETTLING):
        # A waiting request would be served by the very tasks that are counted.
        while (await client.get(f"/v1/jobs/{job_id}")).json()["state"] != "done":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    # The queue's acknowledgement follows the settled row.
    await asyncio.sleep(0.05)
    return job_id


def _show(title: str, files: Sequence[str]) -> int:
    """Print the files and return their number."""
    counts = Counter(files)
    changes = sum(1 for before, after in pairwise(files) if before != after)
    print(f"{title}: {len(files)} calls of {len(counts)} files, {changes} changes of file")
    for file, count in counts.items():
        print(f"{count:>6}  {Path(file).relative_to(ROOT.parent)}")
    return len(counts)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
