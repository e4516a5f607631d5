"""Files made to take a reader's time or memory end in a code, soon, and take nothing with them."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from app.domain.errors import DocumentFault
from app.ports.reading import Mode
from app.reading.recognizer import ProcessRecognizer
from tests.support.hazard_runs import MEBIBYTE, hazards
from tests.support.hazards import (
    ENDLESS,
    ENDLESS_SHADING,
    deflated_twice,
    endless_objects,
    endless_page,
    looping_form,
    looping_tree,
    lying_image,
    many_pages,
    mutations,
    nested_forms,
    odd_resources,
    wide_image,
)
from tests.support.pdfs import Leaf, document, line
from tests.support.reading import Reader, pages_of
from tests.support.sample_documents import SENTENCE, Sheet, drawn, encoded, pdf

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.threat(53, 54)]

SOON = timedelta(seconds=1.5)
"""CPU time that a test's PDF may take."""
DEADLINE = 60
MEMORY = 600 * MEBIBYTE


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def recognizer() -> AsyncIterator[ProcessRecognizer]:
    recognizer = ProcessRecognizer(children=2, memory_bytes=MEMORY, pdf_cpu=SOON, max_pages=2000)
    await recognizer.start()
    yield recognizer
    await recognizer.close()


async def refused(reader: Reader, content: bytes, *, mode: Mode = Mode.AUTO) -> DocumentFault:
    """What is wrong with the file, or with its only page."""
    try:
        async with asyncio.timeout(DEADLINE):
            read = await reader.read(content, mode=mode)
    except DocumentFault as fault:
        return fault
    [unreadable] = read.unreadable
    return unreadable.fault


async def test_forms_within_forms_end_and_others_are_read_meanwhile(
    recognizer: ProcessRecognizer, reader: Reader, tmp_path: Path
) -> None:
    good = tmp_path / "good.pdf"
    good.write_bytes(pdf(Sheet(lines=(SENTENCE,))))
    bomb = asyncio.create_task(refused(reader, nested_forms()))
    for _ in range(5):
        [page] = await pages_of(recognizer, good, media_type="application/pdf")
        assert page.text == SENTENCE
    assert (await bomb).code in {"too_large", "timeout"}


@pytest.mark.parametrize("content", [deflated_twice(), deflated_twice(megabytes=8_000)], ids=["3 GB", "8 GB"])
async def test_what_unpacks_to_gigabytes_is_too_large(reader: Reader, content: bytes) -> None:
    assert len(content) < 50_000
    assert (await refused(reader, content)).code in {"too_large", "timeout"}


async def test_a_page_that_never_ends_is_given_up_without_a_second_try(
    recognizer: ProcessRecognizer, reader: Reader
) -> None:
    before = _cpu_of_children()
    fault = await refused(reader, endless_page(), mode=Mode.FORCE)
    assert fault.code == "timeout"
    # One budget, and the start of another reader.
    assert _cpu_of_children() - before < 2 * SOON.total_seconds()
    assert len(recognizer._pool._living) <= 2


async def test_of_a_file_with_an_endless_page_the_others_are_read(reader: Reader) -> None:
    good, endless = Leaf(content=line(SENTENCE)), Leaf(content=ENDLESS, resources=ENDLESS_SHADING)
    content = document(good, good, endless, good, good, objects=endless_objects())
    read = await reader.read(content, mode=Mode.FORCE)
    assert [page.number for page in read.pages] == [1, 2, 4, 5]
    assert {page.text for page in read.pages} == {SENTENCE}
    assert [(page.number, page.fault.code) for page in read.unreadable] == [(3, "timeout")]


@pytest.mark.parametrize("content", [wide_image(side=16_384), lying_image()], ids=["so many", "claims more"])
async def test_images_of_very_many_pixels_end(reader: Reader, content: bytes) -> None:
    read = await reader.read(content)
    assert all(page.text == "" for page in read.pages)
    assert all(page.fault.code in {"too_large", "timeout"} for page in read.unreadable)
    assert len(read.pages) + len(read.unreadable) == 1


async def test_an_image_that_claims_too_many_pixels_is_not_decoded(reader: Reader) -> None:
    head = encoded(drawn(SENTENCE))
    # Width and height in the header.
    lying = head[:16] + (60_000).to_bytes(4, "big") * 2 + head[24:]
    assert (await refused(reader, lying)).code in {"too_large", "corrupt"}


async def test_too_many_pages_are_refused_at_once(reader: Reader) -> None:
    started = time.monotonic()
    assert (await refused(reader, many_pages(10_000))).code == "too_many_pages"
    assert time.monotonic() - started < 2


async def test_as_many_pages_as_are_allowed_are_read(tmp_path: Path) -> None:
    recognizer = ProcessRecognizer(children=1, max_pages=2_500)
    read = await Reader(recognizer, tmp_path).read(many_pages(2_500))
    await recognizer.close()
    assert [page.number for page in read.pages] == list(range(1, 2_501))


async def test_loops_come_to_an_end(reader: Reader) -> None:
    read = await reader.read(looping_form())
    assert read.text.startswith(SENTENCE)
    tree = await reader.read(looping_tree())
    assert {page.fault.code for page in tree.unreadable} <= {"corrupt"}


@pytest.mark.parametrize(
    "resources",
    [
        "/XObject 7",
        "/XObject<</I 7>>",
        "/XObject<</I 10 0 R>>",
        "/ExtGState(x)/ColorSpace[1]/Pattern/P",
        "/ExtGState<</G<</Font[null 1]/SMask<</G 10 0 R>>>>>>",
        "/ColorSpace<</C[/Indexed/DeviceRGB 255(x)]>>/Pattern<</P<</PatternType 9>>>>",
    ],
)
async def test_resources_that_are_none_leave_the_rest_to_be_read(reader: Reader, resources: str) -> None:
    assert (await reader.read(odd_resources(resources))).text == SENTENCE


async def test_damage_of_any_kind_ends_in_a_known_code(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    async with hazards(memory_bytes=MEMORY) as watched:
        for mutation in mutations(100, seed=20):
            path.write_bytes(mutation.content)
            run = await watched.run(path)
            assert not watched.faults(run, seconds=DEADLINE), mutation.name


def _cpu_of_children() -> float:
    """Of those that have ended and been waited for."""
    times = os.times()
    return times.children_user + times.children_system
