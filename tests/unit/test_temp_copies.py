"""Copies of documents do not outlive the work, nor the worker by much."""

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.temp_copies import PREFIX, local_copy, remove_abandoned


async def content() -> AsyncIterator[bytes]:
    yield b"one "
    yield b"two"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


async def test_a_copy_is_private_and_gone_with_the_work(folder: Path) -> None:
    async with local_copy(content()) as path:
        assert path.read_bytes() == b"one two"
        assert path.stat().st_mode & 0o077 == 0
    assert not os.listdir(folder)  # noqa: PTH208 - nothing to wait for


async def test_a_copy_in_use_is_kept_whatever_number_its_process_has(folder: Path) -> None:
    async with local_copy(content()) as path:
        # As a process of another container sees it: the number is nobody's there.
        remove_abandoned()
        assert path.exists()
    assert not os.listdir(folder)  # noqa: PTH208 - nothing to wait for


def test_copies_of_processes_that_are_gone_are_removed_and_no_others(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        gone = process.pid
    abandoned = [folder / f"{PREFIX}{gone}-x", folder / f"{PREFIX}{os.getpid()}-of-an-earlier-process"]
    kept = [folder / f"{PREFIX}{os.getppid()}-x", folder / "else", folder / f"{PREFIX}note-x"]
    for path in [*abandoned, *kept]:
        path.write_bytes(b"x")
    remove_abandoned()
    assert sorted(folder.iterdir()) == sorted(kept)
