"""A worker process of the real program whose handler does what each job's payload says: `python -m tests.chaos.worker`.

Every execution is logged outside the product, in `$EXECUTIONS/PID.jsonl`, by writes that survive a SIGKILL.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path

from app.bootstrap import open_runtime
from app.domain.errors import DocumentFault
from app.domain.jobs import JobError, Progress
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Fail, Outcome, Retry, Snooze
from app.ports.database import Tx
from app.ports.handlers import Reporter
from app.settings import Settings
from app.telemetry import Metrics, set_up_logging


class Log:
    def __init__(self, folder: str | None) -> None:
        # Open for as long as the process lives.
        self._file = Path(folder, f"{os.getpid()}.jsonl").open("ab", buffering=0) if folder else None  # noqa: SIM115

    def note(self, job: ClaimedJob, event: str) -> None:
        """One line, handed to the kernel before this returns."""
        if self._file is None:
            return
        line = {
            "job": str(job.lease.job_id),
            "tenant": job.lease.tenant_id,
            "attempt": job.lease.attempt,
            "pid": os.getpid(),
            "event": event,
            "at": time.monotonic(),
        }
        self._file.write(json.dumps(line).encode() + b"\n")


class Scripted:
    """Payload: `seconds` to take (else WORK_SECONDS; `blocking`: the loop stands still), then what to `do`."""

    kind = "ocr"

    def __init__(self, log: Log) -> None:
        self._log = log

    async def run(self, job: ClaimedJob, reporter: Reporter) -> Outcome:
        self._log.note(job, "start")
        event = "stopped"
        try:
            await _take(job.payload)
            outcome = _act(job, reporter)
            event = "end"
        except Exception:
            event = "raised"
            raise
        finally:
            self._log.note(job, event)
        return outcome


async def _take(payload: Mapping[str, object]) -> None:
    seconds = float(str(payload.get("seconds", os.environ.get("WORK_SECONDS", "0"))))
    if payload.get("blocking"):
        time.sleep(seconds)  # noqa: ASYNC251 - a handler that does this is what is tested
    else:
        await asyncio.sleep(seconds)


def _act(job: ClaimedJob, reporter: Reporter) -> Outcome:  # noqa: C901 - one case for each thing to do
    text = str(job.payload.get("text", ""))
    match job.payload.get("do"):
        case "result":
            return Done(apply=_result(job, {"attempt": job.lease.attempt, "text": text}))
        case "raise":
            raise RuntimeError(text)
        case "fault":
            raise DocumentFault("corrupt", text)
        case "retry":
            return Retry(JobError(code="internal", message=text))
        case "fail":
            return Fail(JobError(code="internal", message=text))
        case "snooze":
            return Snooze(timedelta(seconds=1))
        case "progress":
            reporter.report(Progress(done=1, total=2, unit=text))
        case "die":
            os._exit(1)
        case _:
            pass
    return Done()


def _result(job: ClaimedJob, result: object) -> Callable[[Tx], Awaitable[None]]:
    async def apply(tx: Tx) -> None:
        await tx.jobs.save_result(job.lease.job_id, result)

    return apply


async def main() -> None:
    set_up_logging(level=os.environ.get("LOG", "error"), human=False)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    handler = Scripted(Log(os.environ.get("EXECUTIONS")))
    async with open_runtime(Settings(), Metrics(), handlers=[handler]) as runtime:
        assert runtime.worker is not None
        runtime.worker.start()
        await stopped.wait()
        await runtime.worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
