"""The project's folder, and folders for servers that run as another account."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Of the project."""


@contextmanager
def open_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="daira-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
