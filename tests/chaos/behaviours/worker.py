"""`daira serve` in worker role as it is, health and all, but for its handlers: they do what each job's payload says.

`python -m tests.chaos.behaviours.worker`. Executions are logged as by `tests.chaos.worker`.
"""

import asyncio
import json
import os
import select
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch
from uuid import UUID

from app import starting
from app.bootstrap import open_runtime
from app.cli import serving
from app.domain.doorbells import LANE_OF_KIND, Lane
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Outcome
from app.ports.database import Tx
from app.ports.leases import ProgressReporter
from tests.chaos.worker import Log


class Scripted:
    """Payload: `seconds` to take (a list: by attempt) and how, what to `do` then, and a `text` to do it with.

    `blocking`: the loop stands still (`thread`: a thread does). `stubborn`: a request to stop is not heard.
    `escaped`: the text as JSON has it, for what no payload can hold; `copies` of it make it long.
    `linger`: seconds for which the first transaction with the result stays open.
    """

    def __init__(self, log: Log, *, kind: str) -> None:
        self.kind = kind
        self._log = log

    async def run(self, job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
        self._log.note(job, "start")
        event = "stopped"
        try:
            await _take(job)
            outcome = _act(job)
            event = "end"
        except Exception:
            event = "raised"
            raise
        finally:
            self._log.note(job, event)
        return outcome


async def _take(job: ClaimedJob) -> None:
    asked = job.payload.get("seconds", 0)
    if isinstance(asked, list):
        asked = asked[min(job.lease.attempt, len(asked)) - 1]
    seconds = float(str(asked))
    try:
        match job.payload.get("blocking"):
            case "thread":
                await asyncio.to_thread(time.sleep, seconds)
            case None:
                await asyncio.sleep(seconds)
            case _:
                # Not time.sleep, which fails where the clock is faked.
                select.select([], [], [], seconds)
    except asyncio.CancelledError:
        if not job.payload.get("stubborn"):
            raise


def _act(job: ClaimedJob) -> Outcome:
    text = _text(job.payload)
    match job.payload.get("do"):
        case "result":
            return Done(apply=_result(job, {"attempt": job.lease.attempt, "text": text}))
        case "raise":
            raise RuntimeError(text)
        case "die":
            os._exit(1)
        case _:
            return Done()


def _text(payload: Mapping[str, object]) -> str:
    escaped = payload.get("escaped")
    text = str(payload.get("text", "")) if escaped is None else str(json.loads(f'"{escaped}"'))
    return text * int(str(payload.get("copies", 1)))


def _result(job: ClaimedJob, result: object) -> Callable[[Tx], Awaitable[None]]:
    linger = [float(str(job.payload.get("linger", 0)))]

    async def apply(tx: Tx) -> None:
        await tx.jobs.save_result(job.lease.job_id, result)
        if linger:
            await asyncio.sleep(linger.pop())

    return apply


def main() -> None:
    """KINDS: what a newer version knows beyond `ocr`, commas between. NAMESAKE: all workers have one name."""
    log = Log(os.environ.get("EXECUTIONS"))
    newer = {kind: Lane.OCR for kind in os.environ.get("KINDS", "").split(",") if kind}
    handlers = [Scripted(log, kind=kind) for kind in ("ocr", *newer)]
    with ExitStack() as stack:
        stack.enter_context(patch.dict(LANE_OF_KIND, newer))
        stack.enter_context(patch.object(starting, "open_runtime", partial(open_runtime, handlers=handlers)))
        if os.environ.get("NAMESAKE"):
            stack.enter_context(patch("app.bootstrap.uuid4", lambda: UUID(int=7)))
        serving.serve()


if __name__ == "__main__":
    main()
