"""What `daira upload` says: texts in the order of the files, sums that add up, also when the user has had enough."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
from rich.console import Console

from app.cli.upload.find_files import FileList, LocalFile
from app.cli.upload.report import UploadReport
from app.cli.upload.sender import UploadOutcome, UploadStopped


def named(name: str) -> LocalFile:
    return LocalFile(shown=name, source=Path(name), filename=name, size=1000)


def read(file: LocalFile, **more: Any) -> UploadOutcome:
    document = {
        "id": f"id-{file.shown}", "status": "ready", "deduplicated": False, "page_count": 1, "warnings": [], "jobs": []
    }  # fmt: skip
    return UploadOutcome(file=file, document=document | more, sent=True)


class Desk:
    def __init__(self, *names: str, text: Callable[[str], str] | None = lambda identity: f"text of {identity}") -> None:
        self.files = [named(name) for name in names]
        self.said = io.StringIO()
        console = Console(file=self.said, width=200, soft_wrap=True)
        self.report = UploadReport(console, FileList(files=self.files), text=text, as_json=False)

    def end(self, *, stopped: bool = False, in_a_hurry: bool = False) -> str:
        self.report.end(seconds=1, stopped=stopped, in_a_hurry=in_a_hurry)
        return self.said.getvalue()


def test_texts_wait_for_their_turn_and_faults_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    desk = Desk("a", "b", "c")
    a, b, c = desk.files
    desk.report.add(read(c))
    desk.report.add(UploadOutcome(file=b, fault="broken"))
    assert (capsys.readouterr().out, desk.said.getvalue()) == ("", "b: broken\n")
    desk.report.add(read(a))
    assert capsys.readouterr().out == "==> a <==\ntext of id-a\n==> c <==\ntext of id-c\n"
    assert "2 sent, 0 were there already, 1 failed: 2.0 kB in 1.0 s (2.0 kB/s)" in desk.end()
    assert desk.report.has_faults


def test_who_stopped_gets_the_texts_that_are_there_and_is_told_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    desk = Desk("a", "b", "c")
    desk.report.add(read(desk.files[1]))
    said = desk.end(stopped=True)
    assert capsys.readouterr().out == "==> b <==\ntext of id-b\n"
    assert "1 sent, 0 were there already, 0 failed, 2 not sent" in said
    assert "To go on, run the same command again" in said


def test_who_is_in_a_hurry_waits_for_no_text() -> None:
    def text(_: str) -> NoReturn:
        raise AssertionError("it was asked for")

    desk = Desk("a", "b", text=text)
    desk.report.add(read(desk.files[1]))
    assert "1 sent, 0 were there already, 0 failed, 1 not sent" in desk.end(stopped=True, in_a_hurry=True)


def test_a_text_that_is_not_waited_for_is_no_fault() -> None:
    def text(_: str) -> NoReturn:
        raise UploadStopped

    desk = Desk("a", text=text)
    desk.report.add(read(desk.files[0]))
    assert not desk.report.has_faults
    assert "1 sent" in desk.end(stopped=True)


def test_a_text_that_does_not_come_is_the_fault_of_its_file_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def text(identity: str) -> str:
        if identity == "id-a":
            raise httpx.ReadError("the line broke")
        return identity

    desk = Desk("a", "b", text=text)
    for file in desk.files:
        desk.report.add(read(file))
    assert capsys.readouterr().out == "==> b <==\nid-b\n"
    assert "a: the line broke" in desk.said.getvalue()
    assert "1 failed" in desk.end()


def test_warnings_name_their_pages_and_not_all_of_them() -> None:
    desk = Desk("a")
    warnings = [
        {"code": "signed", "detail": "it is signed", "pages": []},
        {"code": "hidden_text", "detail": "some is", "pages": [3]},
        {"code": "low_confidence", "detail": "compare", "pages": list(range(1, 40))},
    ]
    desk.report.add(read(desk.files[0], warnings=warnings))
    assert desk.said.getvalue().splitlines() == [
        "a: signed: it is signed",
        "a: hidden_text: some is (page 3)",
        "a: low_confidence: compare (pages 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)",
    ]


def test_a_job_that_failed_beside_the_reading_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    desk = Desk("a")
    error = {"code": "llm_refused", "message": "it would not"}
    failed = {"kind": "summarize", "state": "failed", "error": error}
    older = {"kind": "ocr", "state": "failed", "error": {"code": "timeout", "message": "too long"}}
    newer = {"kind": "ocr", "state": "done", "error": None}
    desk.report.add(read(desk.files[0], jobs=[failed, newer, older]))
    assert desk.said.getvalue() == "a: summarize: it would not (llm_refused)\n"
    assert capsys.readouterr().out == "text of id-a\n"
