"""A worker that can claim and nothing else, as a process of its own: `daira selftest` kills it with a job in its hands.

Run as a program it is that process. It is told what to do on standard input, so that no URL is on a command line:
where the database is, then a doorbell and a lease in each line. It answers each with a line.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.leases import PostgresLeases
from app.domain.doorbells import Ring, parse_ring, ring_message
from app.domain.errors import DairaError, Unavailable
from app.domain.selftest import KIND
from app.settings import Settings

READY, CLAIMED, FAULT = "ready", "claimed", "fault: "


class VictimProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def claim(self, ring: Ring, *, lease: timedelta) -> bool:
        return await self.ask({"ring": ring_message(ring), "lease": lease.total_seconds()}) == CLAIMED

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def ask(self, request: object) -> str:
        """The answer to a line. Raises Unavailable where there is none."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(ConnectionError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            await self._process.stdin.drain()
        answer = (await self._process.stdout.readline()).decode().strip()
        if not answer or answer.startswith(FAULT):
            reason = answer.removeprefix(FAULT) or "it says nothing"
            raise Unavailable(f"the process that was to be killed ended by itself: {reason}")
        return answer


@asynccontextmanager
async def victim_process(settings: Settings) -> AsyncIterator[VictimProcess]:
    """Ready to claim; dead when it is left."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "app.cli.selftest_victim",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        # A Ctrl-C is for the selftest, which ends this one.
        start_new_session=True,
    )
    worker = VictimProcess(process)
    try:
        await worker.ask({"url": settings.database_url.get_secret_value(), "pooled": settings.pooled})
        yield worker
    finally:
        await worker.kill()


async def _work() -> None:
    setup = json.loads(await _line())
    engine = PostgresEngine(setup["url"], pool_size=1, name="doomed", pooled=setup["pooled"])
    leases = PostgresLeases(engine)
    # Connected before it is asked: then a claim is a matter of milliseconds.
    await engine.call("select 1")
    _answer(READY)
    while line := await _line():
        request = json.loads(line)
        lease = timedelta(seconds=request["lease"])
        ring = parse_ring(request["ring"])
        (claim,) = await leases.claim([ring], worker=f"doomed-{os.getpid()}", lease=lease, kinds=frozenset({KIND}))
        _answer(CLAIMED if claim.job else claim.outcome)


async def _line() -> str:
    """Empty when the selftest is gone."""
    return await asyncio.to_thread(sys.stdin.readline)


def _answer(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(_work())
    except DairaError as error:
        _answer(f"{FAULT}{error}")
