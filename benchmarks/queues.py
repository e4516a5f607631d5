"""The speed of Daira's queue, compared with the raw limit of the same server and with other queues on Postgres.

Run: ./daira bench queues

Jobs do nothing. Each competitor has a database of its own on one durable Postgres (fsync and synchronous_commit on),
a worker in a process of its own, and its own fast settings, of which the best counts; Daira works for 50 tenants under
forced row-level security. The peers are installed in an environment of their own, kept in the user's cache folder.

drain     jobs a second of one worker that finds all of them queued
backlog   the same with very many more queued jobs in the table, none of them due
enqueue   jobs a second through each client, one by one and in bulk
pickup    ms from just before the client's call to the handler's start, by an idle worker
idle      transactions and CPU of a worker without work

Prints tables, and writes every figure as JSON and a plot as SVG. A quiet machine is needed: other work on it shows.
"""

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.race import peers
from benchmarks.race.competitor import Competitor, enter
from benchmarks.race.figures import PEERS, Figures, targets
from benchmarks.race.plan import Plan, parse
from benchmarks.race.processes import PROGRAMS, Broken
from benchmarks.race.progress import Steps, shown
from benchmarks.race.record import busy, machine, record
from benchmarks.race.report import show
from benchmarks.race.rounds import Race
from benchmarks.race.server import Busy, Server, open_server

PLOT = Path(peers.__file__).parent / "plot.py"


async def main(plan: Plan) -> None:
    conditions: dict[str, Any] = {"machine": machine(), "plan": _shown(plan), "notes": busy()}
    with shown() as steps:
        with steps.step("the peers' environment"):
            python = await asyncio.to_thread(peers.provide, plan.peers_python)
        async with open_server() as server:
            competitors = await _enter(server, plan, python, steps=steps, notes=conditions["notes"])
            conditions["server"] = await server.settings()
            conditions["competitors"] = [competitor.about for competitor in competitors]
            race = Race(server=server, competitors=competitors, plan=plan, steps=steps, notes=conditions["notes"])
            figures = await race.run()
    _tell(figures, conditions, out=plan.out, python=python)


async def _enter(server: Server, plan: Plan, python: Path, *, steps: Steps, notes: list[str]) -> list[Competitor]:
    competitors = []
    for name in plan.competitors:
        with steps.step(f"{name} is set up"):
            try:
                its_python = python if name in PEERS else Path(sys.executable)
                competitors.append(await enter(server, PROGRAMS / f"{name}.py", python=its_python))
            except Broken as broken:
                if name not in PEERS:
                    raise
                notes.append(f"{name} did not take part: {str(broken).splitlines()[-1]}")
    return competitors


def _tell(figures: Figures, conditions: dict[str, Any], *, out: Path, python: Path) -> None:
    reached = targets(figures)
    out.mkdir(parents=True, exist_ok=True)
    file, plot = out / "queues.json", out / "queues.svg"
    file.write_text(json.dumps(record(figures, reached, conditions), indent=1) + "\n")
    show(figures, reached, conditions)
    subprocess.run([python, "-P", PLOT, file, plot], check=True)
    print(f"Written: {file}, {plot}")


def _shown(plan: Plan) -> dict[str, Any]:
    """The plan's options, without paths, which differ between machines."""
    return {name: value for name, value in asdict(plan).items() if not isinstance(value, Path)}


try:
    asyncio.run(main(parse(__doc__)))
except (Busy, Broken) as error:
    sys.exit(f"queues: {error}")
except KeyboardInterrupt:
    sys.exit("queues: stopped, nothing was written")
