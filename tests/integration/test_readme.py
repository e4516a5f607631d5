"""The README's commands do what it says, on a service started as it says."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.adapters.embedded.locks import Locks
from tests.support.folders import open_folder
from tests.support.papers import SENTENCE, Sheet, drawn, encoded, pdf
from tests.support.service import ROOT, Service, environment, up

README = (ROOT / "README.md").read_text()
RUN = re.compile(r"^<!-- run -->\n```sh\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
"""A marked block, and the block of what it prints where one follows."""

LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
ADDRESS, KEY = "http://127.0.0.1:8000", "daira_dev_…"
CUT = "--- next block ---"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder
        # The keeper stops Postgres a few seconds after its last user; the folder goes after it.
        assert Locks(folder / "data" / "postgres").server.is_free_within(timedelta(seconds=20))


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    with up(folder / "data") as service:
        yield service


@pytest.fixture
def desk(folder: Path) -> Path:
    """A folder as the reader has it: two documents, and `daira` of this environment."""
    (folder / "letter.pdf").write_bytes(pdf(Sheet(lines=(SENTENCE,))))
    (folder / "scan.png").write_bytes(encoded(drawn(SENTENCE)))
    launcher = folder / "daira"
    launcher.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -P -m app "$@"\n')
    launcher.chmod(0o755)
    return folder


def test_the_commands_of_the_readme_print_what_it_says_and_ctrl_c_ends_it(service: Service, desk: Path) -> None:
    blocks = RUN.findall(README)
    assert len(blocks) == README.count("<!-- run -->")
    done = _bash(f"\necho '{CUT}'\n".join(commands for commands, _ in blocks), service=service, cwd=desk)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    printed = done.stdout.split(f"{CUT}\n")
    assert printed == [expected for _, expected in blocks]

    assert service.stop() == 0
    assert not (service.data_dir / "dev.json").exists()


def test_there_are_two_commands_to_set_it_up() -> None:
    set_up = README.split("## Set up")[1].split("\n## ")[0]
    assert re.findall(r"^```sh\n(.*?)^```$", set_up, re.MULTILINE | re.DOTALL) == ["./daira up\n", "./daira test\n"]


@pytest.mark.parametrize("page", ["README.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))])
def test_links_lead_to_files(page: str) -> None:
    here = ROOT / page
    assert [link for link in LINK.findall(here.read_text()) if not (here.parent / link).exists()] == []


def _bash(script: str, *, service: Service, cwd: Path) -> subprocess.CompletedProcess[str]:
    assert ADDRESS in script
    assert KEY in script
    script = script.replace(ADDRESS, service.url).replace(KEY, service.api_key)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["/usr/bin/env", "bash", "-euo", "pipefail", "-c", script],
        cwd=cwd,
        env=environment(PATH=path, NO_PROXY="*", DAIRA_DATA_DIR=str(service.data_dir)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
