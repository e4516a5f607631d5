"""What is named on the command line, as files: each once, in order, and nothing that would hang or go in circles."""

import hashlib
import io
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.cli.upload.find_files import FileList, find_files, printable


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("b.pdf", "a.pdf", "in/c.pdf", "in/deep/d.PDF", "in/.git/e.pdf", ".f.pdf", "[g].pdf"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    return tmp_path


def found(names: Sequence[str]) -> list[str]:
    return [file.shown for file in find_files(names, name=None).files]


def faults(gathered: FileList) -> list[str]:
    return [left.shown for left in gathered.left_out if left.is_fault]


@pytest.mark.parametrize(
    ("named", "files"),
    [
        (["b.pdf", "a.pdf"], ["b.pdf", "a.pdf"]),
        (["."], ["[g].pdf", "a.pdf", "b.pdf", "in/c.pdf", "in/deep/d.PDF"]),
        (["in", "in/c.pdf", "./in/../in/c.pdf"], ["in/c.pdf", "in/deep/d.PDF"]),
        (["*.pdf"], ["[g].pdf", "a.pdf", "b.pdf"]),
        (["**/*.pdf"], ["[g].pdf", "a.pdf", "b.pdf", "in/c.pdf"]),
        (["**/*.[pP][dD][fF]"], ["[g].pdf", "a.pdf", "b.pdf", "in/c.pdf", "in/deep/d.PDF"]),
        (["in/*"], ["in/c.pdf", "in/deep/d.PDF"]),
        ([".*.pdf"], [".f.pdf"]),
        (["in/../?.pdf"], ["in/../a.pdf", "in/../b.pdf"]),
        (["[g].pdf"], ["[g].pdf"]),
        ([".f.pdf"], [".f.pdf"]),
        (["in/.git"], ["in/.git/e.pdf"]),
    ],
    ids=str,
)
def test_names_folders_and_patterns_lead_to_files(named: list[str], files: list[str]) -> None:
    assert found(named) == files


def test_a_pattern_may_be_a_whole_path(desk: Path) -> None:
    assert found([f"{desk}/in/**/*.pdf"]) == [f"{desk}/in/c.pdf"]


def test_no_link_leads_round_in_circles() -> None:
    Path("in/deep/up").symlink_to("../..")
    Path("loop").symlink_to("loop")
    gathered = find_files(["."], name=None)
    assert [file.shown for file in gathered.files] == ["[g].pdf", "a.pdf", "b.pdf", "in/c.pdf", "in/deep/d.PDF"]
    # Whoever followed it would meet it again, on each round.
    assert [left.shown for left in gathered.left_out] == ["loop", "in/deep/up"]
    assert found(["**/*.pdf"]) == ["[g].pdf", "a.pdf", "b.pdf", "in/c.pdf"]
    assert faults(find_files(["loop"], name=None)) == ["loop"]


def test_a_link_that_is_named_itself_is_followed() -> None:
    Path("shortcut").symlink_to("in")
    assert found(["shortcut"]) == ["shortcut/c.pdf", "shortcut/deep/d.PDF"]


def test_nothing_is_opened_that_could_hang() -> None:
    os.mkfifo("pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("plug")
    gathered = find_files(["pipe", "plug", "/dev/null", "/dev/zero"], name=None)
    listening.close()
    assert faults(gathered) == ["pipe", "plug", "/dev/null", "/dev/zero"]


@pytest.mark.parametrize("named", ["nothing.pdf", "*.none", "x" * 5000, "a.pdf/b"])
def test_what_is_not_there_is_a_fault_and_stops_nothing(named: str) -> None:
    gathered = find_files([named, "a.pdf"], name=None)
    assert len(faults(gathered)) == 1
    assert "a.pdf" in [file.shown for file in gathered.files]


def test_what_could_move_a_cursor_is_not_shown() -> None:
    assert printable("a\x1b[2J\r\n\u202egpj.exe\udcff") == "a�[2J���gpj.exe�"


def test_standard_input_is_kept_so_that_it_can_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"by pipe")))
    [file] = find_files(["-"], name="mail.eml").files
    assert (file.filename, file.size) == ("mail.eml", 7)
    assert not isinstance(file.source, Path)
    with file.source:
        assert file.sha256() == file.sha256() == hashlib.sha256(b"by pipe").hexdigest()
