"""The children of recognition: killed, crashed, starved or left behind, they take nothing with them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image

from app.domain.errors import DocumentFault
from app.domain.pages import Page
from app.ports.reading import Mode, OpenFile
from app.reading.children import pool
from app.reading.children.process import ChildProcess
from app.reading.recognizer import ProcessRecognizer
from tests.support.reading import pages_of
from tests.support.sample_documents import SENTENCE, Sheet, drawn, encoded, pdf

ROOT = Path(__file__).parents[2]
DEADLINE = 15


@pytest_asyncio.fixture
async def recognizer() -> AsyncIterator[ProcessRecognizer]:
    recognizer = ProcessRecognizer(children=2)
    await recognizer.start()
    yield recognizer
    pids = pids_of(recognizer)
    await recognizer.close()
    assert not any(is_running(pid) for pid in pids)


@pytest.fixture(scope="module")
def long_scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About a second of work."""
    path = tmp_path_factory.mktemp("scan") / "long.png"
    path.write_bytes(encoded(drawn(*[SENTENCE] * 40, size=(1300, 2300), letters=28)))
    return path


@pytest.fixture(scope="module")
def many_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About two seconds of work."""
    path = tmp_path_factory.mktemp("scan") / "many.pdf"
    path.write_bytes(
        pdf(*[Sheet(image=drawn(SENTENCE, f"Number {number}", size=(1275, 1650))) for number in range(1, 13)])
    )
    return path


@pytest.fixture
def text_pdf(tmp_path: Path) -> Path:
    path = tmp_path / "text.pdf"
    path.write_bytes(pdf(Sheet(lines=(SENTENCE,))))
    return path


async def read(recognizer: ProcessRecognizer, path: Path) -> list[Page]:
    media_type = "application/pdf" if path.suffix == ".pdf" else "image/png"
    return await pages_of(recognizer, path, media_type=media_type)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.002)


def pids_of(recognizer: ProcessRecognizer) -> list[int]:
    return [child.pid for child in recognizer._pool._living]


def busy(recognizer: ProcessRecognizer) -> list[ChildProcess]:
    return [child for child in recognizer._pool._living if child.is_busy and child.files and child.is_alive]


async def busy_child(recognizer: ProcessRecognizer) -> ChildProcess:
    await until(lambda: bool(busy(recognizer)))
    return busy(recognizer)[0]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    # A zombie whose new parent reaps nobody is dead all the same.
    return state not in "ZX"


def crashed(children: list[ChildProcess]) -> bool:
    """Crashes each of them; false, for there is always a next one."""
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGSEGV)
    return False


async def until_gone(*pids: int) -> None:
    await until(lambda: not any(is_running(pid) for pid in pids))


def told_by_proc(pid: int, what: str) -> str:
    return Path(f"/proc/{pid}/{what}").read_text()


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.threat(54)
async def test_a_crash_costs_one_more_try_and_leaves_the_other_child_alone(
    recognizer: ProcessRecognizer, long_scan: Path
) -> None:
    first, second = (asyncio.create_task(read(recognizer, long_scan)) for _ in range(2))
    await until(lambda: len(busy(recognizer)) == 2)
    victim, bystander = (child.pid for child in busy(recognizer))
    os.kill(victim, signal.SIGSEGV)
    for [page] in await asyncio.gather(first, second):
        assert page.text.split()[:3] == ["The", "quick", "brown"]
    assert victim not in pids_of(recognizer)
    assert bystander in pids_of(recognizer)


@pytest.mark.threat(53, 54)
async def test_a_second_crash_on_the_same_page_is_the_documents_fault(
    recognizer: ProcessRecognizer, long_scan: Path, text_pdf: Path
) -> None:
    reading = asyncio.create_task(read(recognizer, long_scan))
    await until(lambda: crashed(busy(recognizer)) or reading.done())
    with pytest.raises(DocumentFault, match="died twice on ") as ended:
        await reading
    assert ended.value.code == "corrupt"
    assert await read(recognizer, text_pdf)


async def test_a_child_that_died_in_its_sleep_is_replaced(recognizer: ProcessRecognizer, text_pdf: Path) -> None:
    for pid in pids_of(recognizer):
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not pids_of(recognizer))
    assert await read(recognizer, text_pdf)


async def test_cancelling_kills_the_child_at_once(
    recognizer: ProcessRecognizer, long_scan: Path, text_pdf: Path
) -> None:
    reading = asyncio.create_task(read(recognizer, long_scan))
    child = await busy_child(recognizer)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await until(lambda: not child.is_alive)
    assert child._how() == "SIGKILL"
    assert await read(recognizer, text_pdf)


@pytest.mark.threat(53)
async def test_a_page_over_its_time_ends_in_timeout(long_scan: Path, text_pdf: Path) -> None:
    recognizer = ProcessRecognizer(children=1, page_timeout=timedelta(seconds=0.5))
    with pytest.raises(DocumentFault, match=r"over 0\.5 s") as ended:
        await read(recognizer, long_scan)
    assert ended.value.code == "timeout"
    assert await read(recognizer, text_pdf)
    await recognizer.close()


@pytest.mark.threat(53, 54)
async def test_a_page_that_takes_too_much_memory_fails_alone(tmp_path: Path, text_pdf: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(encoded(Image.new("RGB", (7000, 7000), "white")))
    recognizer = ProcessRecognizer(children=1, memory_bytes=300 * 1024 * 1024)
    await recognizer.start()
    before = pids_of(recognizer)
    with pytest.raises(DocumentFault) as ended:
        await read(recognizer, path)
    assert ended.value.code == "too_large"
    assert await read(recognizer, text_pdf)
    assert pids_of(recognizer) == before
    await recognizer.close()


async def test_two_files_are_read_at_once_and_a_third_waits(recognizer: ProcessRecognizer, long_scan: Path) -> None:
    readings = [asyncio.create_task(read(recognizer, long_scan)) for _ in range(3)]
    await until(lambda: len(busy(recognizer)) == 2)
    await asyncio.gather(*readings)
    assert len(pids_of(recognizer)) == 2


async def test_the_pages_of_one_file_are_read_by_all_who_are_free(
    recognizer: ProcessRecognizer, many_pages: Path
) -> None:
    reading = asyncio.create_task(read(recognizer, many_pages))
    await until(lambda: len(busy(recognizer)) == 2)
    assert [page.number for page in await reading] == list(range(1, 13))
    # Both seats are free again.
    readings = [asyncio.create_task(read(recognizer, many_pages)) for _ in range(2)]
    await until(lambda: len(busy(recognizer)) == 2)
    await asyncio.gather(*readings)


async def test_a_long_file_gives_a_reader_up_as_soon_as_somebody_waits_for_one(
    recognizer: ProcessRecognizer, many_pages: Path, text_pdf: Path
) -> None:
    async with recognizer.open(many_pages, media_type="application/pdf", language="eng", mode=Mode.AUTO) as file:
        pages = file.pages()
        seen = [await anext(pages)]
        other = asyncio.create_task(read(recognizer, text_pdf))
        async for page in pages:
            seen.append(page)
            if other.done():
                break
        assert len(seen) < 12, "it waited for the whole of the other file"
        assert await other
        seen += [page async for page in pages]
    assert len(seen) == 12


async def test_leaving_a_file_in_the_middle_ends_all_who_read_it(
    recognizer: ProcessRecognizer, many_pages: Path, text_pdf: Path
) -> None:
    found: list[int] = []

    async def read_on(file: OpenFile) -> None:
        async for page in file.pages():
            found.append(page.number)  # noqa: PERF401 - it is looked at meanwhile

    async with recognizer.open(many_pages, media_type="application/pdf", language="eng", mode=Mode.AUTO) as file:
        # A task, because a child whose page nobody takes gets no other one: two that end together would stay idle.
        reading = asyncio.create_task(read_on(file))
        await until(lambda: bool(found) and len(busy(recognizer)) == 2)
        working = busy(recognizer)
        reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert len(found) < 12
    await until(lambda: not any(child.is_alive for child in working))
    for _ in range(2):
        assert await read(recognizer, text_pdf)


async def test_a_helpers_crash_costs_one_more_try(recognizer: ProcessRecognizer, many_pages: Path) -> None:
    reading = asyncio.create_task(read(recognizer, many_pages))
    await until(lambda: len(busy(recognizer)) == 2)
    for child in busy(recognizer):
        os.kill(child.pid, signal.SIGSEGV)
    assert [page.number for page in await reading] == list(range(1, 13))


async def test_the_event_loop_is_free_while_a_page_is_read(recognizer: ProcessRecognizer, long_scan: Path) -> None:
    reading = asyncio.create_task(read(recognizer, long_scan))
    longest, started, last = 0.0, time.monotonic(), time.monotonic()
    while not reading.done():
        await asyncio.sleep(0.001)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    await reading
    assert longest < (last - started) / 3


async def test_a_child_retires_after_enough_files(
    recognizer: ProcessRecognizer, text_pdf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "FILES_BEFORE_RETIREMENT", 2)
    before = set(pids_of(recognizer))
    for _ in range(5):
        assert await read(recognizer, text_pdf)
    assert not before & set(pids_of(recognizer))


@pytest.mark.threat(54)
async def test_a_child_sees_nothing_of_its_parents_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DAIRA_DATABASE_URL", "postgresql://secret")
    monkeypatch.chdir(tmp_path)
    recognizer = ProcessRecognizer(children=1)
    await recognizer.start()
    [pid] = pids_of(recognizer)
    environment, limits = told_by_proc(pid, "environ"), told_by_proc(pid, "limits")
    await recognizer.close()
    assert "secret" not in environment
    assert "Max core file size        0 " in limits
    assert "Max file size             0 " in limits


async def test_closing_ends_work_children_and_pipes(long_scan: Path, text_pdf: Path) -> None:
    async def one_life() -> None:
        recognizer = ProcessRecognizer(children=2)
        await recognizer.start()
        await read(recognizer, text_pdf)
        reading = asyncio.create_task(read(recognizer, long_scan))
        await busy_child(recognizer)
        pids = pids_of(recognizer)
        await recognizer.close()
        with pytest.raises(ConnectionResetError):
            await reading
        assert not any(is_running(pid) for pid in pids)
        with pytest.raises(ConnectionResetError):
            await read(recognizer, text_pdf)

    await one_life()
    before = open_files()
    await one_life()
    assert open_files() == before


async def test_a_broken_installation_is_said_and_not_blamed_on_the_document(tmp_path: Path) -> None:
    (tmp_path / "eng.traineddata").write_bytes(b"no model")
    recognizer = ProcessRecognizer(children=1, tessdata=tmp_path)
    with pytest.raises(RuntimeError, match="No reader could be started"):
        await recognizer.start()
    await recognizer.close()


PARENT = """
import asyncio, sys
from pathlib import Path
from app.reading.recognizer import ProcessRecognizer
from app.ports.reading import Mode

async def main():
    recognizer = ProcessRecognizer(children=2)
    await recognizer.start()
    path = Path(sys.argv[1])
    async with recognizer.open(path, media_type="image/png", language="eng", mode=Mode.AUTO) as file:
        print(*[child.pid for child in recognizer._pool._living], flush=True)
        while True:
            [page async for page in file.pages()]

asyncio.run(main())
"""


@pytest.fixture
def parent(long_scan: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of its own, with two children of which one is always at work."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(long_scan)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


async def test_the_parents_sudden_death_is_its_childrens_too(parent: subprocess.Popen[str]) -> None:
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    assert all(is_running(pid) for pid in pids)
    parent.kill()
    parent.wait()
    await until_gone(*pids)
