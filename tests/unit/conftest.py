"""What the unit tests may ask for: an empty store in memory, and the service in front of one."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import settings

from tests.support.rig import Rig, memory_rig
from tests.unit.bench import Bench
from tests.unit.served import Served, served

# A busy machine is no fault of the code, and a run that fails must fail again.
settings.register_profile("daira", deadline=None, max_examples=60, derandomize=True, database=None)
settings.load_profile("daira")


@pytest.fixture
def rig() -> Rig:
    return memory_rig()


@pytest.fixture
def bench(rig: Rig) -> Bench:
    return Bench(rig=rig)


@pytest.fixture
async def web() -> AsyncIterator[Served]:
    async with served() as web:
        yield web
