"""Python environments of their own for servers that tests start: made once for each list of packages."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def programs_of(packages: Path) -> Path:
    """The `bin` folder of an environment with the packages of this hash-pinned list.

    The first process to come makes it, others wait for that. Such a list is made by
    `uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
    --no-emit-index-url --no-emit-find-links`.
    """
    digest = hashlib.sha256(packages.read_bytes()).hexdigest()[:12]
    home = Path(tempfile.gettempdir()) / f"daira-{packages.stem}-{os.getuid()}-{digest}"
    with _locked(home.with_suffix(".lock")):
        if home.exists() and home.stat().st_uid != os.getuid():
            raise RuntimeError(f"{home} belongs to somebody else: set TMPDIR to a folder of your own")
        made = home / "made"
        if not made.exists():
            shutil.rmtree(home, ignore_errors=True)
            _make(home, packages)
            made.touch()
    return home / "bin"


def _make(home: Path, packages: Path) -> None:
    python = str(home / "bin" / "python")
    install = ["install", "--quiet", "--require-hashes", "-r", str(packages)]
    if uv := shutil.which("uv"):
        _run(uv, "venv", "--quiet", "--python", sys.executable, str(home))
        _run(uv, "pip", *install, "--python", python)
    else:
        _run(sys.executable, "-m", "venv", str(home))
        _run(python, "-m", "pip", *install, "--disable-pip-version-check")


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} said:\n{done.stderr[-2000:]}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
