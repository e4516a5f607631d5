"""`daira up`, from the first start to text on standard output, and through the ways in which it can end."""

import asyncio
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.adapters.postgres.engine import administer
from app.selftest.run import CHECKS
from tests.support.folders import ROOT, open_folder
from tests.support.sample_documents import SENTENCE, Sheet, drawn, encoded, pdf
from tests.support.service import Service, command, ended, environment, run, up, upload, using, wait_until


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with open_folder() as folder, up(folder / "data") as service:
        yield service


def test_an_upload_prints_the_text_of_a_scan_and_of_a_born_digital_pdf(service: Service, tmp_path: Path) -> None:
    (tmp_path / "scan.png").write_bytes(encoded(drawn(SENTENCE)))
    (tmp_path / "digital.pdf").write_bytes(pdf(Sheet(lines=(SENTENCE,) * 3)))
    printed = run("upload", "--wait", "scan.png", "digital.pdf", "--data-dir", str(service.data_dir), cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.count(SENTENCE) == 4


def test_pages_tell_where_their_text_came_from_and_where_each_word_stands(service: Service) -> None:
    with service.client() as client:
        document = upload(client, pdf(Sheet(lines=(SENTENCE, SENTENCE)), Sheet(image=drawn(SENTENCE))))
        assert ended(client, document["jobs"][0])["state"] == "done"
        pages = client.get(f"/v1/documents/{document['id']}/pages").json()["data"]
        assert [page["source"] for page in pages] == ["text_layer", "ocr"]
        page = client.get(f"/v1/documents/{document['id']}/pages/2").json()
    assert "quick" in [word["text"] for word in page["words"]]
    for word in page["words"]:
        x0, y0, x1, y1 = word["box"]
        assert 0 <= x0 < x1 <= page["width"]
        assert 0 <= y0 < y1 <= page["height"]
        assert 0 <= word["confidence"] <= 1


def test_a_file_that_cannot_be_read_fails_with_its_reason_and_exit_status_1(service: Service, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing of a PDF follows")
    printed = run("upload", "--wait", "broken.pdf", "--data-dir", str(service.data_dir), cwd=tmp_path)
    assert printed.returncode == 1
    assert "corrupt" in printed.stderr
    assert "Traceback" not in printed.stderr


@pytest.mark.parametrize("content", [b"", b"MZ\x90\0\3\0\0\0", b"PK\3\4 no document"])
def test_what_is_no_document_is_refused_at_once(service: Service, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.pdf").write_bytes(content)
    printed = run("upload", "odd.pdf", "missing.pdf", "--data-dir", str(service.data_dir), cwd=tmp_path)
    assert printed.returncode == 1
    assert "odd.pdf" in printed.stderr
    assert "missing.pdf: No such file" in printed.stderr


def test_what_up_leaves_for_other_commands_is_private_and_the_key_stays_the_same(folder: Path) -> None:
    data = folder / "data"
    with up(data) as first:
        assert stat.S_IMODE((data / "dev.json").stat().st_mode) == 0o600
        assert first.stop() == 0
        assert not (data / "dev.json").exists()
    with up(data) as second:
        assert second.api_key == first.api_key


def test_a_selftest_finds_it_by_itself_and_leaves_nothing(service: Service, tmp_path: Path) -> None:
    done = run("selftest", cwd=tmp_path, DAIRA_DATA_DIR=str(service.data_dir))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✓ ") == len(CHECKS) + 3
    assert "all is as it should be" in done.stdout
    assert asyncio.run(_tenants(service)) == ["dev"]


def test_a_second_up_on_the_same_folder_says_so_and_ends_with_1(service: Service, tmp_path: Path) -> None:
    second = run("up", "--port", "0", "--data-dir", str(service.data_dir), cwd=tmp_path)
    assert second.returncode == 1
    assert "another `daira up` runs on" in second.stderr
    with service.client() as client:
        assert client.get("/healthz").is_success


def test_a_port_that_is_taken_is_told_before_anything_starts(service: Service, tmp_path: Path) -> None:
    port = service.url.rsplit(":", 1)[1]
    taken = run("up", "--port", port, "--data-dir", str(tmp_path / "other"), cwd=tmp_path)
    assert taken.returncode == 1
    assert f"can't listen on 127.0.0.1:{port}" in taken.stderr
    assert not (tmp_path / "other" / "postgres").exists()


def test_a_job_survives_kill_9_and_is_done_once_by_the_next_up(folder: Path) -> None:
    data = folder / "data"
    settings = {"DAIRA_LEASE_SECONDS": "3", "DAIRA_SWEEP_SECONDS": "1"}
    with up(data, **settings) as first, first.client() as client:
        documents = [
            upload(client, pdf(*[Sheet(image=drawn(f"{SENTENCE} {n}", size=(1275, 1650)))] * 3)) for n in range(3)
        ]
        first.process.kill()
        first.process.wait()
    with up(data, **settings) as second, second.client() as client:
        for document in documents:
            job = ended(client, document["jobs"][0], seconds=60)
            assert job["state"] == "done"
            assert [entry["outcome"] for entry in job["history"]].count("done") == 1
            assert client.get(f"/v1/documents/{document['id']}").json()["page_count"] == 3


def test_ctrl_c_leaves_no_process_behind(folder: Path) -> None:
    data = folder / "data"
    with up(data) as service:
        mine = service.process.pid
        assert _descendants(mine)
        assert service.stop() == 0
    wait_until(lambda: not using(data), seconds=30)


def test_a_worker_that_is_told_to_stop_gives_its_job_back_at_no_cost(folder: Path) -> None:
    data = folder / "data"
    with up(data, DAIRA_GRACE_SECONDS="0") as first, first.client() as client:
        document = upload(client, pdf(*[Sheet(image=drawn(*[SENTENCE] * 5, size=(1275, 1650)))] * 6))
        wait_until(lambda: _state(client, document["jobs"][0]["id"]) == "claimed", seconds=20)
        assert first.stop(signal.SIGTERM) == 0
    with up(data) as second, second.client() as client:
        job = ended(client, document["jobs"][0], seconds=60)
    assert job["state"] == "done"
    assert (job["failures"], job["expiries"], job["releases"]) == (0, 0, 1)
    assert [entry["outcome"] for entry in job["history"]] == ["release", "done"]


def test_output_in_a_pipe_ends_with_the_program(folder: Path) -> None:
    """A server that inherits our pipe would keep a reader of it waiting."""
    with subprocess.Popen(
        command("up", "--port", "0", "--data-dir", str(folder / "data")),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if "upload --wait" in line:
                process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    assert "Daira is ready at http://127.0.0.1:" in printed
    assert "curl -H" in printed


def test_the_launcher_says_what_is_missing_when_there_is_no_python(tmp_path: Path) -> None:
    for tool in ("dirname", "cmp", "cp"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    answer = subprocess.run(
        ["/bin/sh", str(ROOT / "daira"), "up"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert "Python 3.11 or later is needed" in answer.stderr


async def _tenants(service: Service) -> list[str]:
    async with administer(service.database_url) as connection:
        rows = await connection.fetch("select t from daira.tenants_with_due_work(10, null, '') t")
        return [row["t"] for row in rows]


def _state(client: object, job_id: str) -> str:
    state: str = client.get(f"/v1/jobs/{job_id}").json()["state"]  # type: ignore[attr-defined]
    return state


def _descendants(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


if sys.platform != "linux":
    pytest.skip("/proc tells of processes on Linux alone", allow_module_level=True)
