"""What the behaviours may ask for."""

from collections.abc import Iterator

import pytest

from tests.chaos.behaviours.scenarios import Scenarios
from tests.support.databases import Databases


@pytest.fixture(scope="module")
def scenarios(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Scenarios]:
    """Those of the module's tests that are to be run."""
    ours = [
        item for item in request.session.items if isinstance(item, pytest.Function) and item.module is request.module
    ]
    scenarios = Scenarios([item.function.scenario for item in ours if hasattr(item.function, "scenario")], databases)
    yield scenarios
    scenarios.stop()
