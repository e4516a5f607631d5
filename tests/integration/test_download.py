"""`daira download`: into a file, into a pipe, onto a terminal; the whole of it or nothing."""

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pypdfium2
import pytest

from tests.support.folders import open_folder
from tests.support.sample_documents import SENTENCE, drawn, encoded
from tests.support.service import Service, command, ended, environment, run, up, upload

CONTENT = encoded(drawn(SENTENCE, SENTENCE))


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with open_folder() as folder, up(folder / "data") as service:
        yield service


@pytest.fixture(scope="module")
def document(service: Service) -> str:
    with service.client() as client:
        document = upload(client, CONTENT, name="scan of mine.png")
        assert ended(client, document["jobs"][0])["state"] == "done"
    identity: str = document["id"]
    return identity


def download(service: Service, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run("download", *arguments, "--data-dir", str(service.data_dir), cwd=cwd)


def test_the_original_goes_to_the_file_that_was_named(service: Service, document: str, tmp_path: Path) -> None:
    (tmp_path / "mine.png").write_text("older")
    done = download(service, document, "-o", "mine.png", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (tmp_path / "mine.png").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["mine.png"]


def test_a_searchable_copy_holds_the_text(service: Service, document: str, tmp_path: Path) -> None:
    assert download(service, document, "--as", "pdf", "-o", "copy.pdf", cwd=tmp_path).returncode == 0
    [page] = pypdfium2.PdfDocument(tmp_path / "copy.pdf")
    assert page.get_textpage().get_text_bounded().split() == SENTENCE.split() * 2


FORMS = [("text", SENTENCE), ("markdown", "<!-- page 1 -->"), ("hocr", "<?xml"), ("alto", "<?xml")]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0])
def test_a_pipe_gets_what_was_asked_for_and_nothing_else(
    service: Service, document: str, tmp_path: Path, form: tuple[str, str]
) -> None:
    done = download(service, document, "--as", form[0], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(form[1])
    assert "jumps" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_a_new_file_has_the_documents_name_and_none_is_overwritten(
    service: Service, document: str, tmp_path: Path
) -> None:
    arguments = command("download", document, "--data-dir", str(service.data_dir))
    assert "saved scan of mine.png" in on_a_terminal(arguments, cwd=tmp_path, status=0)
    assert (tmp_path / "scan of mine.png").read_bytes() == CONTENT
    assert (tmp_path / "scan of mine.png").stat().st_mode & 0o777 == 0o666 & ~umask()
    (tmp_path / "scan of mine.png").write_text("mine")
    assert "is there already" in on_a_terminal(arguments, cwd=tmp_path, status=1)
    assert (tmp_path / "scan of mine.png").read_text() == "mine"
    assert SENTENCE in on_a_terminal([*arguments, "--as", "text"], cwd=tmp_path, status=0)
    assert len(list(tmp_path.iterdir())) == 1


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def on_a_terminal(arguments: list[str], *, cwd: Path, status: int) -> str:
    """What is shown, in one line."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(arguments, cwd=cwd, env=environment(), stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    while chunk := read(screen):
        shown += chunk
    os.close(screen)
    assert process.wait(timeout=60) == status, shown
    return " ".join(shown.decode().split())


def read(screen: int) -> bytes:
    try:
        return os.read(screen, 4096)
    except OSError:
        # Linux's way to say that the other end was closed.
        return b""


@pytest.mark.parametrize("form", ["original", "pdf", "text"])
def test_what_is_not_there_is_said_and_leaves_no_file(service: Service, tmp_path: Path, form: str) -> None:
    unknown = "01890000-0000-7000-8000-000000000000"
    done = download(service, unknown, "--as", form, "-o", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not_found" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_to_and_not_replaced(service: Service, document: str, tmp_path: Path) -> None:
    assert download(service, document, "-o", "/dev/null", cwd=tmp_path).returncode == 0
    assert Path("/dev/null").is_char_device()


def test_a_folder_that_is_not_there_is_said(service: Service, document: str, tmp_path: Path) -> None:
    done = download(service, document, "-o", "no/such/folder/x.png", cwd=tmp_path)
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_form_is_wrong_usage(service: Service, document: str, tmp_path: Path) -> None:
    assert download(service, document, "--as", "docx", cwd=tmp_path).returncode == 2
