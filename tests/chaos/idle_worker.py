"""A worker of the real program with a handler that does nothing, as a process: `python -m tests.chaos.idle_worker`."""

import asyncio
import os
import signal
from datetime import timedelta

from app.bootstrap import open_runtime
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Outcome
from app.ports.handlers import Reporter
from app.settings import Settings
from app.telemetry import Metrics, set_up_logging


class Nothing:
    """Takes WORK_SECONDS for it."""

    kind = "ocr"

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def run(self, _job: ClaimedJob, _reporter: Reporter) -> Outcome:
        await asyncio.sleep(timedelta(seconds=self._seconds).total_seconds())
        return Done()


async def main() -> None:
    set_up_logging(level=os.environ.get("LOG", "error"), human=False)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    handler = Nothing(float(os.environ.get("WORK_SECONDS", "0")))
    async with open_runtime(Settings(), Metrics(), handlers=[handler]) as runtime:
        assert runtime.worker is not None
        runtime.worker.start()
        await stopped.wait()
        await runtime.worker.stop()


if __name__ == "__main__":
    asyncio.run(main())
