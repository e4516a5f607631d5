"""Every format, damaged two hundred times: each file is read or refused, and no child dies of it."""

import io
import random
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.domain.errors import DocumentFault
from app.domain.filetypes import types
from app.reading.recognizer import ProcessRecognizer
from tests.integration.test_text_formats import SAMPLES
from tests.support.heic import heic
from tests.support.office import zipped
from tests.support.reading import pages_of
from tests.support.sample_documents import drawn, encoded

SEED = 20_260
MUTATIONS = 200
RIGHT = {"done", "corrupt", "encrypted", "too_large", "too_many_pages", "unsupported", "empty"}

FUZZED = SAMPLES | {types.HEIC: heic(), types.GIF: encoded(drawn("x"), "GIF"), types.AVIF: encoded(drawn("x"), "AVIF")}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def recognizer() -> AsyncIterator[ProcessRecognizer]:
    recognizer = ProcessRecognizer(children=1, max_pages=50)
    await recognizer.start()
    yield recognizer
    await recognizer.close()


def damaged(content: bytes, chance: random.Random) -> bytes:
    out = bytearray(content)
    match chance.randrange(4):
        case 0:
            for _ in range(chance.randint(1, 8)):
                out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
        case 1:
            del out[chance.randrange(len(out)) :]
        case 2:
            start, end = sorted(chance.randrange(len(out)) for _ in range(2))
            at = chance.randrange(len(out))
            out[at:at] = out[start:end]
        case _:
            start = chance.randrange(len(out))
            out[start : start + chance.randint(1, 64)] = chance.randbytes(chance.randint(0, 64))
    return bytes(out)


def variants(media_type: str) -> list[bytes]:
    """Of a zip every other one is damaged within its parts, where no checksum gives it away."""
    chance = random.Random(f"{SEED} {media_type}")  # noqa: S311 - the same files with every run
    content = FUZZED[media_type]
    made = [damaged(content, chance) for _ in range(MUTATIONS)]
    if content.startswith(b"PK"):
        made[::2] = [damaged_within(content, chance) for _ in made[::2]]
    return made


def damaged_within(content: bytes, chance: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice([name for name in parts if parts[name]])
    parts[name] = damaged(parts[name], chance)
    return zipped(parts)


@pytest.mark.threat(54)
@pytest.mark.parametrize("media_type", FUZZED)
async def test_whatever_happened_to_a_file_it_is_read_or_refused(
    recognizer: ProcessRecognizer, tmp_path: Path, media_type: str
) -> None:
    path = tmp_path / "upload"
    ended: dict[str, int] = {}
    pids = {child.pid for child in recognizer._pool._living}
    deaths = 0
    for content in variants(media_type):
        path.write_bytes(content)
        how = await outcome(recognizer, path, media_type)
        ended[how] = ended.get(how, 0) + 1
        deaths += {child.pid for child in recognizer._pool._living} != pids
        pids = {child.pid for child in recognizer._pool._living}
    assert set(ended) <= RIGHT
    # A child retires after 200 files.
    assert deaths <= 2


async def outcome(recognizer: ProcessRecognizer, path: Path, media_type: str) -> str:
    try:
        read = await pages_of(recognizer, path, media_type=media_type)
    except DocumentFault as fault:
        return fault.code
    for page in read:
        page.text.encode()
        assert "\0" not in page.text
    return "done"
