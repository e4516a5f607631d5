"""A tenant's `GET` and the readiness of a web process while another tenant attacks it with legal requests.

Run: ./daira bench noisy_web [--seconds 20] [--only schemas,text]

Figures are milliseconds, each request counted from the time when it was due: `GET /v1/documents/{id}` twenty times a
second and `/readyz` twice a second, idle and during each attack; and the megabytes by which the process grew. Each
attack meets a fresh process of the role `web` on the same database, and comes from a process of its own. Its answers
are shown by their status. Targets: p99 at most twice the idle one and 20 ms more, `/readyz` within a second, and at
most 100 MB.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.web.attacks import ATTACKS, Target, aim
from benchmarks.web.load import Answers, as_fast_as_answered, at_a_pace, get, post_file
from benchmarks.web.servers import Server, daira
from tests.support.api_keys import new_key
from tests.support.databases import Cloned, Databases
from tests.support.folders import ROOT

RATE, READINESS_RATE = 20.0, 2.0
MOST_MEGABYTES = 100
SETTINGS: Any = {"DAIRA_ROLE": "web", "DAIRA_LLM_BASE_URL": "http://127.0.0.1:9/v1", "DAIRA_LLM_MODEL": "none"}


@dataclass(frozen=True, kw_only=True)
class Measurement:
    gets: Answers
    ready: Answers
    megabytes: float
    """By how much the process grew."""
    answers: str = ""
    """The attack's answers by status; 0 is a broken connection."""

    def fits(self, idle: "Measurement") -> bool:
        bound = 2 * idle.gets.percentile(0.99) + 20
        return self.gets.percentile(0.99) <= bound and max(self.ready.seconds) <= 1 and self.megabytes <= MOST_MEGABYTES

    def row(self) -> str:
        p50, p99, ready = self.gets.percentile(0.5), self.gets.percentile(0.99), max(self.ready.seconds) * 1000
        return f"{self.gets.count:>6} {p50:>8.1f} {p99:>8.1f} {ready:>8.1f} {self.megabytes:>7.1f}"


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=20, help="of each measurement")
    arguments.add_argument("--only", help=f"some of {','.join(ATTACKS)}")
    arguments.add_argument("--metadata", type=int, default=16_000, help="bytes of a document's metadata")
    options = arguments.parse_args()
    names = options.only.split(",") if options.only else list(ATTACKS)
    print(f"{'':<18} {'GETs':>6} {'p50':>8} {'p99':>8} {'/readyz':>8} {'MB':>7}")
    async with prepared(metadata=options.metadata) as web:
        failed = [name for name in names if not await _compare(web, name, seconds=options.seconds)]
    print(f"beyond the targets: {', '.join(failed) or 'none'}")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A database in which the attacking tenant has its documents, and another tenant a key."""

    cloned: Cloned
    folder: Path
    target: Target
    others_key: str

    @contextmanager
    def served(self) -> Iterator[tuple[Server, Target]]:
        with daira(self.cloned, self.folder, **SETTINGS) as server:
            yield server, Target(**asdict(self.target) | {"url": server.url})


@asynccontextmanager
async def prepared(*, pages: int = 1_900, metadata: int = 16_000) -> AsyncIterator[Prepared]:
    databases = Databases()
    await databases.start()
    try:
        async with databases.clone() as cloned:
            with tempfile.TemporaryDirectory(prefix="daira-bench-") as folder:
                with daira(cloned, Path(folder), **SETTINGS) as server:
                    target = await aim(
                        cloned, url=server.url, key=server.key, tenant="acme", pages=pages, metadata=metadata
                    )
                others_key = await asyncio.to_thread(new_key, cloned.app_url, "globex")
                yield Prepared(cloned=cloned, folder=Path(folder), target=target, others_key=others_key)
    finally:
        databases.close()


async def _compare(web: Prepared, name: str, *, seconds: float) -> bool:
    with web.served() as (server, target):
        watched = await others_document(server, web.others_key)
        idle = await measured(server, watched, key=web.others_key, seconds=seconds)
        attacked = await measured(server, watched, key=web.others_key, seconds=seconds, attack=(name, target))
    print(f"{name + ': idle':<18} {idle.row()}")
    print(f"{name:<18} {attacked.row()}  {attacked.answers}", flush=True)
    return attacked.fits(idle)


async def others_document(server: Server, key: str) -> str:
    given = iter([post_file("/v1/documents", b"The other tenant's letter", key=key)])
    answers, _ = await as_fast_as_answered(server.url, lambda: next(given, None), connections=1, keep_bodies=True)
    return f"/v1/documents/{json.loads(answers.bodies[0])['id']}"


async def measured(
    server: Server, path: str, *, key: str, seconds: float, attack: tuple[str, Target] | None = None
) -> Measurement:
    """Measure for so long, from the beginning of the attack."""
    before = _megabytes(server)
    with _attacked(attack) as answers:
        over = asyncio.Event()
        asking = (
            at_a_pace(server.url, get(path, key=key), rate=RATE, until=over),
            at_a_pace(server.url, get("/readyz", key=key), rate=READINESS_RATE, until=over, connections=1),
        )
        measuring = asyncio.gather(*asking)
        most = before
        for _ in range(max(1, int(seconds / 0.2))):
            await asyncio.sleep(0.2)
            most = max(most, _megabytes(server))
        over.set()
        gets, ready = await measuring
    return Measurement(gets=gets, ready=ready, megabytes=most - before, answers=answers[-1] if answers else "")


@contextmanager
def _attacked(attack: tuple[str, Target] | None) -> Iterator[Sequence[str]]:
    """The lines that the attacking process has printed, filled on leaving."""
    lines: list[str] = []
    if attack is None:
        yield lines
        return
    name, target = attack
    words = [sys.executable, "-P", "-m", "benchmarks.web.attacks", name, json.dumps(asdict(target))]
    with subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}
    ) as attacker:
        assert attacker.stdout is not None
        try:
            # Its first line says that it begins.
            lines.append(attacker.stdout.readline().strip())
            yield lines
        finally:
            attacker.terminate()
            lines += attacker.stdout.read().splitlines()


def _megabytes(server: Server) -> float:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    asyncio.run(main())
