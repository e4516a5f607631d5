"""What tests of whole files may ask for."""

from pathlib import Path

import pytest

from tests.support.reading import Written


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes bytes to a file without a telling name."""

    def write(content: bytes) -> Path:
        path = tmp_path / "upload"
        path.write_bytes(content)
        return path

    return write
