"""One recognizer for each file of tests, and a way to have it read bytes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app.reading.recognizer import ProcessRecognizer
from tests.support.reading import Reader


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def recognizer() -> AsyncIterator[ProcessRecognizer]:
    recognizer = ProcessRecognizer(children=1)
    await recognizer.start()
    yield recognizer
    await recognizer.close()


@pytest.fixture
def reader(recognizer: ProcessRecognizer, tmp_path: Path) -> Reader:
    return Reader(recognizer, tmp_path)
