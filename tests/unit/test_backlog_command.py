"""`daira backlog` shows at one glance whether work is late or stuck, with colours and without."""

import asyncio
import io
import json
from datetime import timedelta

import pytest
from rich.console import Console

from app.bootstrap import open_runtime
from app.cli import backlog
from app.domain.doorbells import LANE_OF_KIND
from app.ports.leases import Backlog
from app.telemetry import Metrics
from tests.unit.served import in_memory


def test_without_work_every_kind_is_there_and_nothing_is_late() -> None:
    lines = _drawn([])
    assert lines[0] == "nothing is late or stuck"
    assert {line.split()[0] for line in lines[2:]} == set(LANE_OF_KIND)


def test_stuck_jobs_come_first_and_a_bar_tells_its_parts_apart_without_colours() -> None:
    lines = _drawn([_row("ocr", due=50, scheduled=30, running=19, stuck=1, oldest_due=timedelta(minutes=5))])
    assert lines[0].startswith("1 stuck")
    (line,) = [line for line in lines if line.startswith("ocr")]
    bar = line.split()[1]
    assert {sign: bar.count(sign) for sign in "×▓█░"} == {"×": 1, "▓": 6, "█": 15, "░": 9}
    assert line.endswith("1       19   50         30       5 min")


def test_due_jobs_are_told_with_the_age_of_the_oldest() -> None:
    assert _drawn([_row("ask", due=3, oldest_due=timedelta(seconds=119))])[0] == "3 due, the oldest for 119 s"


def test_a_kind_of_another_version_is_shown_too() -> None:
    assert [line for line in _drawn([_row("translate", due=1)]) if line.startswith("translate")]


async def test_json_is_one_object_with_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    async with open_runtime(in_memory(), Metrics()) as runtime:
        await backlog._print(runtime, backlog._show_json, watch=False)
    told = json.loads(capsys.readouterr().out)
    assert {kind["kind"] for kind in told["kinds"]} == set(LANE_OF_KIND)
    assert set(told["kinds"][0]) == {"kind", "due", "scheduled", "running", "stuck", "oldest_due_seconds"}


class Left(Exception):
    """Whoever watched."""


class TwoLooks:
    """All of a runtime that is looked at."""

    def __init__(self) -> None:
        self.sweeps = self
        self._left = 2

    async def backlog(self) -> list[Backlog]:
        if not self._left:
            raise Left
        self._left -= 1
        return []


def test_in_a_pipe_whoever_watches_gets_each_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backlog, "EVERY", 0)
    monkeypatch.setattr(backlog, "with_runtime", lambda show: asyncio.run(show(TwoLooks())))
    with pytest.raises(Left):
        backlog.backlog(watch=True)
    assert capsys.readouterr().out.count("nothing is late or stuck") == 2


def _row(kind: str, *, oldest_due: timedelta = timedelta(), **counts: int) -> Backlog:
    return Backlog(kind=kind, **{"due": 0, "scheduled": 0, "running": 0, "stuck": 0} | counts, oldest_due=oldest_due)


def _drawn(rows: list[Backlog]) -> list[str]:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(backlog.drawn(rows))
    assert isinstance(console.file, io.StringIO)
    return [line.strip() for line in console.file.getvalue().splitlines()]
