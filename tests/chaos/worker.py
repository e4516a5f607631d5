"""A worker process of the real program whose handler does what each job's payload says: `python -m tests.chaos.worker`.

Every execution is logged outside the product, in `$EXECUTIONS/PID.jsonl`, by writes that survive a SIGKILL. Where there
is a file `PID.suspended`, local deadlines of leases are measured by a clock that stood still for so many seconds: as on
a machine that was suspended, whose monotonic clock does not count that.
"""

import asyncio
import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import uvloop

from app.bootstrap import open_runtime
from app.domain import outcomes
from app.domain.errors import DocumentFault
from app.domain.jobs import JobError, Progress
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Fail, Outcome, Retry, Snooze
from app.ports.database import Tx
from app.ports.leases import ProgressReporter
from app.settings import Settings
from app.telemetry import Metrics, set_up_logging
from app.worker import consumer, heartbeat


class Log:
    def __init__(self, folder: str | None) -> None:
        # Open for as long as the process lives.
        self._file = Path(folder, f"{os.getpid()}.jsonl").open("ab", buffering=0) if folder else None  # noqa: SIM115

    def up(self) -> None:
        """Say that this process works now."""
        if self._file is not None:
            Path(self._file.name).with_suffix(".up").touch()

    def clock(self) -> float:
        """The monotonic clock without the seconds for which this process was suspended."""
        seconds = 0.0
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError):
                seconds = float(Path(self._file.name).with_suffix(".suspended").read_text())
        return time.monotonic() - seconds

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
    """Payload: `seconds` to take (else WORK_SECONDS; `blocking`: the loop stands still), then what to `do`.

    With `times` that is done in so many attempts only, and later ones bring a result. `again`: seconds that attempts
    after the first take. `write`: seconds that a result is slow to write.
    """

    kind = "ocr"

    def __init__(self, log: Log) -> None:
        self._log = log

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        self._log.note(job, "start")
        event = "stopped"
        try:
            await _take(job)
            outcome = _act(job, reporter)
            event = "end"
        except Exception:
            event = "raised"
            raise
        finally:
            self._log.note(job, event)
        return outcome


async def _take(job: ClaimedJob) -> None:
    payload = job.payload
    usual = payload.get("seconds", os.environ.get("WORK_SECONDS", "0"))
    seconds = float(str(payload.get("again", usual) if job.lease.attempt > 1 else usual))
    if payload.get("blocking"):
        # A handler that does this is what is tested. Not time.sleep: it fails where the clock is faked.
        select.select([], [], [], seconds)
    else:
        await asyncio.sleep(seconds)


def _act(job: ClaimedJob, reporter: ProgressReporter) -> Outcome:  # noqa: C901 - one case for each thing to do
    text = str(job.payload.get("text", ""))
    match _deed(job):
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


def _deed(job: ClaimedJob) -> object:
    times = int(str(job.payload.get("times", job.lease.attempt)))
    return job.payload.get("do") if job.lease.attempt <= times else "result"


def _result(job: ClaimedJob, result: object) -> Callable[[Tx], Awaitable[None]]:
    async def apply(tx: Tx) -> None:
        await asyncio.sleep(float(str(job.payload.get("write", 0))))
        await tx.jobs.save_result(job.lease.job_id, result)

    return apply


async def main() -> None:
    set_up_logging(level=os.environ.get("LOG", "error"), human=False)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    log = Log(os.environ.get("EXECUTIONS"))
    # A soak test is over in a minute: no time for waits as long as an outage would want them.
    vars(outcomes)["BACKOFF"] = timedelta(seconds=2)
    for module in (heartbeat, consumer):
        vars(module)["monotonic"] = log.clock
    async with open_runtime(Settings(), Metrics(), handlers=[Scripted(log)]) as runtime:
        assert runtime.worker is not None
        runtime.worker.start()
        log.up()
        await stopped.wait()
        await runtime.worker.stop()


if __name__ == "__main__":
    # As the real program does.
    uvloop.run(main())
