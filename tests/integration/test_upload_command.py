"""`daira upload` with many files: which are sent, what is said of them, and that none stops the others."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_download import on_a_terminal, read
from tests.support.bad_line import BadLine, bad_line
from tests.support.folders import open_folder
from tests.support.sample_documents import SENTENCE, Sheet, drawn, encoded, pdf
from tests.support.service import Service, command, environment, run, up

# The superuser may read everything, unless he gives that away.
MORTAL = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with open_folder() as folder, up(folder / "data") as service:
        yield service


@pytest.fixture
def line(service: Service) -> Iterator[BadLine]:
    with bad_line(service.url) as line:
        yield line


def upload(service: Service, *arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    ours = {"DAIRA_URL": service.url, "DAIRA_API_KEY": service.api_key} | settings
    return run("upload", *arguments, cwd=cwd, **ours)


def names(done: subprocess.CompletedProcess[str]) -> set[str]:
    """Of the files that standard output tells of."""
    return {line.split(" ", 2)[2].removesuffix(" (already there)") for line in done.stdout.splitlines()}


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """A folder with files to send, and all that has no business there."""
    scans = tmp_path / "scans"
    (scans / "2026" / "march").mkdir(parents=True)
    (scans / ".cache").mkdir()
    for name in ("a.txt", "2026/b.txt", "2026/march/c.md", ".hidden.txt", ".cache/d.txt"):
        (scans / name).write_text(f"{tmp_path} {name}")
    (scans / "empty.txt").touch()
    (scans / "2026" / "loop").symlink_to("..")
    (scans / "2026" / "again.txt").symlink_to("b.txt")
    (scans / "lost.txt").symlink_to("nowhere")
    os.mkfifo(scans / "pipe")
    return scans


def test_a_folder_is_sent_with_all_below_it_but_what_is_hidden_empty_or_no_file(service: Service, scans: Path) -> None:
    done = upload(service, "scans", cwd=scans.parent)
    assert done.returncode == 0, done.stderr
    assert {Path(name).name for name in names(done)} in ({"a.txt", "again.txt", "c.md"}, {"a.txt", "b.txt", "c.md"})
    for left in ("empty.txt: the file is empty", "pipe: not a regular file", "loop: a link to a folder", "2 hidden"):
        assert left in done.stderr
    assert "lost.txt: No such file or directory" in done.stderr
    assert "3 sent, 0 were there already, 0 failed" in done.stderr


def test_a_folder_without_files_is_no_fault_and_says_that_nothing_was_sent(service: Service, tmp_path: Path) -> None:
    done = upload(service, ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing to send: no file was found" in done.stderr


@pytest.mark.parametrize("pattern", ["scans/**/*.txt", "{}/scans/**/[ab]*.txt"])
def test_a_quoted_pattern_is_what_a_shell_would_make_of_it(service: Service, scans: Path, pattern: str) -> None:
    done = upload(service, pattern.format(scans.parent), cwd=scans.parent)
    assert {Path(name).name for name in names(done)} <= {"a.txt", "b.txt", "again.txt"}
    assert "2 sent" in done.stderr


def test_what_is_named_and_is_no_file_is_a_fault_and_the_others_are_sent(service: Service, scans: Path) -> None:
    named = ["scans/pipe", "scans/empty.txt", "scans/lost.txt", "none/*.pdf", "missing.pdf", "scans/a.txt"]
    done = upload(service, "--json", *named, cwd=scans.parent)
    assert done.returncode == 1
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["file"] for each in told if each["fault"]] == named[:5]
    assert [each["file"] for each in told if not each["fault"]] == named[5:]
    assert "Traceback" not in done.stderr
    assert "1 sent, 0 were there already, 5 failed" in done.stderr


@pytest.mark.parametrize(
    "name", ['"quoted" & <b>.txt', "new\nline.txt", "\x1b[31mred.txt", "日本 語.txt", "-n.txt", "[x].txt"]
)
def test_a_name_may_have_any_character_and_moves_no_cursor(service: Service, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(f"{tmp_path} {name}")
    done = upload(service, "--json", f"./{name}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert "\x1b" not in document["file"]
    assert document["filename"].endswith("txt")


def test_a_name_that_is_no_text_in_any_encoding_is_sent_too(service: Service, tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.txt")).write_text(f"{tmp_path} odd")
    done = upload(service, ".", cwd=tmp_path)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr


def test_a_file_that_may_not_be_read_stops_no_other(service: Service, tmp_path: Path) -> None:
    for name in ("shut.txt", "open.txt"):
        (tmp_path / name).write_text(f"{tmp_path} {name}")
    (tmp_path / "shut.txt").chmod(0)
    ours = {"DAIRA_URL": service.url, "DAIRA_API_KEY": service.api_key}
    done = subprocess.run(
        [*MORTAL, *command("upload", "shut.txt", "open.txt")],
        cwd=tmp_path,
        env=environment(**ours),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "shut.txt: Permission denied" in done.stderr
    assert "open.txt" in done.stdout
    assert "1 sent, 0 were there already, 1 failed" in done.stderr


def test_standard_input_is_a_file_with_a_name(service: Service, tmp_path: Path) -> None:
    ours = {"DAIRA_URL": service.url, "DAIRA_API_KEY": service.api_key}
    done = subprocess.run(
        command("upload", "-", "--name", "mail.txt", "--json", "--metadata", "from=me", "--metadata", "box=a=b"),
        cwd=tmp_path,
        env=environment(**ours),
        input=f"{tmp_path} by pipe".encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["filename"], document["metadata"]) == ("mail.txt", {"from": "me", "box": "a=b"})


def test_texts_come_in_the_order_of_the_files_each_under_its_name(service: Service, tmp_path: Path) -> None:
    (tmp_path / "slow.png").write_bytes(encoded(drawn(SENTENCE)))
    (tmp_path / "fast.txt").write_text("It is read at once.")
    done = upload(service, "--wait", "slow.png", "fast.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"==> slow.png <==\n{SENTENCE}\n==> fast.txt <==\nIt is read at once.\n"


def test_a_document_without_text_says_so_instead_of_printing_an_empty_line(service: Service, tmp_path: Path) -> None:
    (tmp_path / "blank.pdf").write_bytes(pdf(Sheet()))
    done = upload(service, "--wait", "blank.pdf", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "blank.pdf: no text was found in it\n")


def test_warnings_of_a_document_are_told_beside_its_text(service: Service, tmp_path: Path) -> None:
    (tmp_path / "hidden.html").write_text("<p>seen</p><p style='display:none'>unseen</p>")
    done = upload(service, "--wait", "hidden.html", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "seen\n")
    assert done.stderr.startswith("hidden.html: hidden_text: text that a reader of the page can't see was left out")
    assert "(page 1)" in done.stderr


def test_a_second_run_sends_no_byte_again(service: Service, line: BadLine, scans: Path) -> None:
    first = upload(service, "scans", cwd=scans.parent, DAIRA_URL=line.url)
    assert len(line.uploads) == 3
    again = upload(service, "scans", cwd=scans.parent, DAIRA_URL=line.url)
    assert len(line.uploads) == 3
    assert names(again) == names(first)
    assert "0 sent, 3 were there already, 0 failed: 0 bytes" in again.stderr


def test_lost_bytes_are_put_back_by_sending_them_again(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{tmp_path} lost")
    document = json.loads(upload(service, "--wait", "--json", "a.txt", cwd=tmp_path).stdout)
    (lost,) = service.data_dir.glob(f"blobs/*/{document['id']}")
    lost.unlink()
    assert upload(service, "a.txt", cwd=tmp_path).returncode == 0
    assert not lost.exists()
    again = upload(service, "--again", "--json", "a.txt", cwd=tmp_path)
    assert json.loads(again.stdout)["id"] == document["id"]
    assert lost.read_text() == f"{tmp_path} lost"


def test_a_job_that_is_asked_for_later_is_run_on_what_is_there_already(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{tmp_path} later")
    assert upload(service, "--wait", "a.txt", cwd=tmp_path).returncode == 0
    asked = upload(service, "--job", "summarize", "a.txt", cwd=tmp_path)
    assert asked.returncode == 1
    assert "llm_not_configured" in asked.stderr


def test_a_busy_service_is_waited_for_and_said_to_be(service: Service, line: BadLine, scans: Path) -> None:
    line.troubles += [(429, "1"), (429, "1")]
    done = upload(service, "--parallel", "1", "scans", cwd=scans.parent, DAIRA_URL=line.url)
    assert done.returncode == 0, done.stderr
    assert "the service has enough to do (come later): going on in 1 s" in done.stderr
    assert "3 sent, 0 were there already, 0 failed" in done.stderr
    assert len(line.uploads) == 5


def test_a_wrong_key_is_said_once_and_nothing_is_sent(service: Service, scans: Path) -> None:
    done = upload(service, "scans", cwd=scans.parent, DAIRA_API_KEY="daira_dev_wrong")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("unauthorized") == 1


def test_address_and_key_may_stand_in_a_file(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{tmp_path} by file")
    (tmp_path / ".env").write_text(f"DAIRA_URL={service.url}\nDAIRA_API_KEY={service.api_key}\n")
    assert run("upload", "a.txt", cwd=tmp_path).returncode == 0
    other = run("upload", "a.txt", cwd=tmp_path, DAIRA_API_KEY="daira_dev_wrong")
    assert "unauthorized" in other.stderr, "the environment goes before the file"


@pytest.mark.parametrize("wrong", [("--metadata", "novalue"), ("--parallel", "0")])
def test_wrong_usage_ends_with_2(service: Service, tmp_path: Path, wrong: tuple[str, str]) -> None:
    assert upload(service, "a.txt", *wrong, cwd=tmp_path).returncode == 2


def test_a_terminal_shows_bars_and_a_table_at_the_end(service: Service, scans: Path) -> None:
    shown = on_a_terminal(
        command("upload", "--wait", "scans", "missing.pdf", "--data-dir", str(service.data_dir)),
        cwd=scans.parent,
        status=1,
    )
    assert "3 of 3 files" in shown
    table = shown.rsplit("seconds", 1)[1]
    for told in ("a.txt", "c.md", "ready"):
        assert told in table
    assert "missing.pdf: No such file or directory" in shown


def test_text_goes_to_a_file_while_the_terminal_shows_the_bars(service: Service, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("It is read at once, into a file.")
    screen, terminal = pty.openpty()
    with (tmp_path / "text").open("wb") as text:
        arguments = command("upload", "--wait", "a.txt", "--data-dir", str(service.data_dir))
        process = subprocess.Popen(arguments, cwd=tmp_path, env=environment(), stdout=text, stderr=terminal)
    os.close(terminal)
    shown = b"".join(iter(lambda: read(screen), b""))
    os.close(screen)
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "text").read_text() == "It is read at once, into a file.\n"
    assert b"into a file" not in shown
