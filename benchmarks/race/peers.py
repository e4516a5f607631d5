"""Environments of other products, made once from hash-checked requirements and separate from Daira's."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from benchmarks.race.processes import ROOT

REQUIREMENTS = ROOT / "requirements" / "peers.txt"
NAMES = ("python3.13", "python3.12", "python3.14")
"""Oban needs 3.12."""
RECENT = "import sys; sys.exit(sys.version_info < (3, 12)); import venv"


def provide(python: Path | None, *, requirements: Path = REQUIREMENTS) -> Path:
    """The environment's interpreter. The environment is made with `python`, or with an interpreter that is found."""
    interpreter = python or _find()
    wanted = requirements.read_bytes() + str(interpreter).encode()
    folder = platformdirs.user_cache_path("daira-race") / hashlib.sha256(wanted).hexdigest()[:12]
    inside = folder / "bin" / "python"
    stamp = folder / ".installed"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        for command in _commands(interpreter, folder, inside, requirements=requirements):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        stamp.touch()
    return inside


def _commands(interpreter: Path, folder: Path, inside: Path, *, requirements: Path) -> Iterator[list[str]]:
    if uv := shutil.which("uv"):
        yield [uv, "venv", "--quiet", "--python", str(interpreter), str(folder)]
        install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(inside)]
    else:
        yield [str(interpreter), "-m", "venv", str(folder)]
        install = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    yield [*install, "--require-hashes", "-r", str(requirements)]


def _find() -> Path:
    """An interpreter of Python 3.12 or later, otherwise our own; then Oban is left out."""
    for candidate in _candidates():
        if subprocess.run([candidate, "-c", RECENT], check=False, capture_output=True).returncode == 0:
            return candidate
    return Path(sys.executable)


def _candidates() -> Iterator[Path]:
    if sys.version_info >= (3, 12):
        yield Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for name in NAMES:
        if found := shutil.which(name):
            yield Path(found)
        yield from sorted(pyenv.glob(f"{name.removeprefix('python')}.*/bin/python"), reverse=True)
