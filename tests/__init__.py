"""Failed assertions of the shared parts tell as much as those of a test module: said before they are imported."""

import pytest

pytest.register_assert_rewrite("tests.support", "tests.conformance", "tests.chaos")
