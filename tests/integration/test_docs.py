"""The commands and programs of README and docs do what the pages say, on a service started as they say."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from PIL.PngImagePlugin import PngInfo

from app.embedded.locks import ClusterLocks
from tests.support.folders import ROOT, open_folder
from tests.support.ports import free_port, listens
from tests.support.sample_documents import SENTENCE, Sheet, drawn, encoded, pdf
from tests.support.service import Service, environment, install, up, wait_until
from tests.support.snippets import PAGES, fits, open_desk, snippets

ADDRESS, KEY = "http://127.0.0.1:8000", "daira_dev_…"
RECEIPT = ("Corner Shop", "date 2026-03-12", "total 3.50")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")

RUN = [page for page in PAGES if any(snippet.runs for snippet in snippets(page))]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder
        # The keeper stops Postgres a few seconds after its last user; the folder goes after it.
        assert ClusterLocks(folder / "data" / "postgres").server.is_free_within(timedelta(seconds=20))


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    with _language_model() as url, up(folder / "data", DAIRA_LLM_BASE_URL=url, DAIRA_LLM_MODEL="any") as service:
        yield service


@pytest.mark.parametrize("page", RUN)
def test_what_a_page_says_to_run_prints_what_it_says(page: str, service: Service, tmp_path: Path) -> None:
    ours = environment(NO_PROXY="*", DAIRA_DATA_DIR=str(service.data_dir))
    with open_desk(_laid_out(tmp_path / "desk", page), ours) as desk:
        for snippet in snippets(page):
            if snippet.runs:
                code = snippet.code.replace(ADDRESS, service.url).replace(KEY, service.api_key)
                printed = desk.run(snippet, code=code).replace(service.url, ADDRESS)
                where = f"{page}:{snippet.line} prints:\n{printed}"
                assert fits(printed, snippet.printed), where


def test_ctrl_c_ends_what_the_readme_starts(service: Service) -> None:
    assert service.stop() == 0
    assert not (service.data_dir / "dev.json").exists()


def test_there_are_two_commands_to_set_it_up() -> None:
    set_up = (ROOT / "README.md").read_text().split("## Set up")[1].split("\n## ")[0]
    assert re.findall(r"^```sh\n(.*?)^```$", set_up, re.MULTILINE | re.DOTALL) == ["./daira up\n", "./daira test\n"]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    here = ROOT / page
    assert [link for link in LINK.findall(here.read_text()) if not (here.parent / link).exists()] == []


def test_the_index_names_every_page_but_the_records_of_decisions() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/") and "decisions/" not in page]
    assert [page for page in pages if page != "index.md" and f"({page})" not in index] == []


def _laid_out(desk: Path, page: str) -> Path:
    """A folder as the reader has it: some documents, and `daira` of this environment."""
    desk.mkdir()
    # Bytes of their own for each page: the same ones would be the document of the page before.
    note = PngInfo()
    note.add_text("Comment", page)
    (desk / "letter.pdf").write_bytes(pdf(Sheet(lines=(SENTENCE,)), trailer=f"/Page({page})"))
    (desk / "scan.png").write_bytes(encoded(drawn(SENTENCE), pnginfo=note))
    (desk / "receipt.jpg").write_bytes(encoded(drawn(*RECEIPT), "JPEG", comment=page.encode()))
    (desk / "scans").mkdir()
    for name in ("a", "b", "c"):
        (desk / "scans" / f"{name}.txt").write_text(f"Scan {name} of {page}.")
    install(desk)
    return desk


@contextmanager
def _language_model() -> Iterator[str]:
    """The address of one that picks its answers out of what it is shown."""
    port = free_port()
    command = [sys.executable, "-m", "tests.support.llm_server", "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: listens(port), seconds=30)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
