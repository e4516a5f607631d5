"""What the behaviours may ask for."""

from collections.abc import Iterator

import pytest

from tests.chaos.behaviours.plays import Plays
from tests.support.databases import Databases


@pytest.fixture(scope="module")
def plays(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Plays]:
    """Those of the module's tests that are to be run."""
    ours = [
        item for item in request.session.items if isinstance(item, pytest.Function) and item.module is request.module
    ]
    plays = Plays([item.function.play for item in ours if hasattr(item.function, "play")], databases)
    yield plays
    plays.stop()
