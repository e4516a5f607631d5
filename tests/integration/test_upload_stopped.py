"""`daira upload` that is stopped amid many files, goes on later, or has hundreds of them."""

import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.bad_line import CUT, LOST, SILENT, BadLine, bad_line
from tests.support.databases import Databases
from tests.support.folders import open_folder
from tests.support.service import Service, command, environment, run, serving, wait_until

STOPPED = 130


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(databases: Databases) -> AsyncIterator[Service]:
    """One tenant for all tests, and nothing is read: what is looked at is the sending."""
    async with databases.clone() as cloned:
        with open_folder() as folder, serving(cloned, folder, DAIRA_ROLE="web") as service:
            yield service


@pytest.fixture
def line(service: Service) -> Iterator[BadLine]:
    with bad_line(service.url) as line:
        yield line


def files(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:04}.txt").write_text(f"File {number} of {folder}.")


def ours(line: BadLine | Service, service: Service) -> dict[str, str]:
    return {"DAIRA_URL": line.url, "DAIRA_API_KEY": service.api_key}


@contextmanager
def begun(*arguments: str, cwd: Path, **settings: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command("upload", *arguments),
        cwd=cwd,
        env=environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            # A test that fails does not wait for what may never end.
            process.kill()


def documents(service: Service) -> int:
    with service.client() as client:
        count, cursor = 0, None
        while True:
            page = client.get("/v1/documents", params={"limit": 100} | ({"cursor": cursor} if cursor else {})).json()
            count, cursor = count + len(page["data"]), page["next_cursor"]
            if cursor is None:
                return count


def limit(service: Service, jobs: str) -> None:
    settings = {"DAIRA_DATABASE_URL": service.database_url}
    done = run("tenant", "limits", "acme", "--max-queued", jobs, cwd=service.data_dir, **settings)
    assert done.returncode == 0, done.stderr


def key(service: Service, scope: str) -> str:
    settings = {"DAIRA_DATABASE_URL": service.database_url}
    made = run("key", "create", "acme", "--scope", scope, cwd=service.data_dir, **settings)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def test_ctrl_c_finishes_what_is_being_sent_and_the_next_run_sends_the_rest_alone(
    service: Service, line: BadLine, tmp_path: Path
) -> None:
    files(tmp_path / "scans", 60)
    before = documents(service)
    with begun("scans", cwd=tmp_path, **ours(line, service)) as process:
        assert process.stdout is not None
        for _ in range(10):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == STOPPED
    told = re.search(r"(\d+) sent, 0 were there already, 0 failed, (\d+) not sent", said)
    assert told, said
    sent = int(told[1])
    assert 10 <= sent < 60
    assert sent + int(told[2]) == 60
    assert "To go on, run the same command again" in said
    assert documents(service) - before == sent == len(line.uploads)

    again = run("upload", "scans", cwd=tmp_path, **ours(line, service))
    assert again.returncode == 0, again.stderr
    assert f"{60 - sent} sent, {sent} were there already, 0 failed" in again.stderr
    assert documents(service) - before == 60 == len(line.uploads)


def test_a_second_ctrl_c_waits_for_nothing(service: Service, line: BadLine, tmp_path: Path) -> None:
    files(tmp_path / "scans", 5)
    line.troubles += [SILENT] * 4
    with begun("scans", cwd=tmp_path, **ours(line, service)) as process:
        assert process.stderr is not None
        assert line.heard.wait(60)
        process.send_signal(signal.SIGINT)
        assert "Ctrl-C again" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == STOPPED
    assert "0 sent, 0 were there already, 0 failed, 5 not sent" in said
    assert "Traceback" not in said


def test_ctrl_c_waits_for_no_text_and_says_what_was_sent(service: Service, tmp_path: Path) -> None:
    files(tmp_path / "scans", 3)
    before = documents(service)
    with begun("--wait", "--json", "scans", cwd=tmp_path, **ours(service, service)) as process:
        # Nobody reads here, so that nothing ends.
        wait_until(lambda: documents(service) == before + 3, seconds=30)
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)
    assert process.returncode == STOPPED
    assert len(printed.splitlines()) == 3
    assert "3 sent" in said


@pytest.mark.parametrize("trouble", [CUT, LOST, (503, "0")], ids=str)
def test_a_line_that_breaks_costs_no_file_and_doubles_none(
    service: Service, line: BadLine, tmp_path: Path, trouble: str | tuple[int, str]
) -> None:
    files(tmp_path / "scans", 3)
    before = documents(service)
    line.troubles += [trouble] * 2
    done = run("upload", "--parallel", "1", "scans", cwd=tmp_path, **ours(line, service))
    assert done.returncode == 0, done.stderr
    assert "no answer" in done.stderr
    assert len(done.stdout.splitlines()) == 3
    assert documents(service) == before + 3
    assert len(line.uploads) == 5
    assert len({upload.key for upload in line.uploads}) == 3, "a file keeps its key through all tries"


def test_a_full_queue_is_waited_for(service: Service, tmp_path: Path) -> None:
    """The service's own refusal, and not one that a test has made up."""
    files(tmp_path / "scans", 3)
    limit(service, str(documents(service) + 2))
    with begun("--parallel", "1", "scans", cwd=tmp_path, **ours(service, service)) as process:
        assert process.stderr is not None
        assert "the service has enough to do" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == STOPPED
    assert "2 sent, 0 were there already, 0 failed, 1 not sent" in said
    limit(service, "none")


def test_a_key_that_may_only_write_sends_all_the_same(service: Service, tmp_path: Path) -> None:
    files(tmp_path / "scans", 3)
    theirs = ours(service, service) | {"DAIRA_API_KEY": key(service, "documents:write")}
    for told in ("3 sent, 0 were there already, 0 failed", "0 sent, 3 were there already, 0 failed"):
        done = run("upload", "scans", cwd=tmp_path, **theirs)
        assert done.returncode == 0, done.stderr
        assert told in done.stderr


def test_a_key_that_may_not_write_is_tried_with_one_file_and_not_with_all(service: Service, tmp_path: Path) -> None:
    files(tmp_path / "scans", 20)
    theirs = ours(service, service) | {"DAIRA_API_KEY": key(service, "documents:read")}
    done = run("upload", "--parallel", "1", "scans", cwd=tmp_path, **theirs)
    assert done.returncode == 1
    assert done.stderr.count("forbidden") == 1
    assert "0 sent, 0 were there already, 1 failed, 19 not sent" in done.stderr


def test_hundreds_of_files_are_sent_once_each(service: Service, tmp_path: Path) -> None:
    files(tmp_path / "scans", 300)
    with begun("scans", "--parallel", "8", cwd=tmp_path, **ours(service, service)) as process:
        printed, said = process.communicate(timeout=250)
    assert process.returncode == 0, said
    assert len({line.split()[0] for line in printed.splitlines()}) == 300
    assert "300 sent, 0 were there already, 0 failed" in said
