"""From what was named on the command line to files: folders with all below them, patterns, standard input.

What is named itself must be a file that can be read, or it is a fault. What is merely met in a folder and is no file to
send is left out, with the reason.
"""

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import has_magic
from pathlib import Path
from typing import IO

STANDARD_INPUT = "-"
SMALL = BLOCK = 1024 * 1024

NO_FILE = "not a regular file: to send what comes out of it, pipe it into `daira upload - --name NAME`"

_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    shown: str
    """The name for people: nothing in it moves a cursor."""
    source: Path | IO[bytes]
    filename: str
    size: int

    def sha256(self) -> str:
        if isinstance(self.source, Path):
            with self.source.open("rb") as opened:
                return _sha256(opened)
        return _sha256(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedFile:
    shown: str
    why: str
    is_fault: bool
    """It was named itself, or a folder could not be looked into."""


@dataclass(slots=True, kw_only=True)
class FileList:
    files: list[LocalFile] = field(default_factory=list)
    left_out: list[SkippedFile] = field(default_factory=list)
    hidden: int = 0
    """Files and folders."""
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def leave_out(self, path: Path | str, why: str, *, is_fault: bool = False) -> None:
        self.left_out.append(SkippedFile(shown=printable(path), why=why, is_fault=is_fault))

    def add(self, path: Path, *, named: bool) -> None:
        """A file; once, by however many ways it is reached."""
        try:
            found = path.stat()
        except OSError as error:
            self.leave_out(path, error.strerror or str(error), is_fault=named)
            return
        if not stat.S_ISREG(found.st_mode):
            self.leave_out(path, NO_FILE if named else "not a regular file", is_fault=named)
        elif found.st_size == 0:
            self.leave_out(path, "the file is empty", is_fault=named)
        elif (found.st_dev, found.st_ino) not in self._seen:
            self._seen.add((found.st_dev, found.st_ino))
            self.files.append(LocalFile(shown=printable(path), source=path, filename=path.name, size=found.st_size))


def find_files(names: Sequence[str], *, name: str | None) -> FileList:
    """`name`: of what comes by standard input."""
    gathered = FileList()
    for each in names:
        if each == STANDARD_INPUT:
            gathered.files += _standard_input(name or "standard input", gathered)
        elif has_magic(each) and not os.path.lexists(each):
            _add_pattern(gathered, each)
        else:
            _add(gathered, Path(each), named=True)
    return gathered


def printable(path: Path | str) -> str:
    return _UNSHOWN.sub("�", str(path))


def _sha256(opened: IO[bytes]) -> str:
    digest = hashlib.sha256()
    opened.seek(0)
    while block := opened.read(BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _add(gathered: FileList, path: Path, *, named: bool) -> None:
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for a folder that can't be entered
        _add_folder(gathered, path)
    else:
        gathered.add(path, named=named)


def _add_folder(gathered: FileList, folder: Path) -> None:
    def unread(error: OSError) -> None:
        gathered.leave_out(error.filename, error.strerror or str(error), is_fault=True)

    # Links to folders are not followed: one may lead back to where it stands.
    for place, folders, names in os.walk(folder, onerror=unread):
        for link in sorted(name for name in folders if (Path(place) / name).is_symlink()):
            gathered.leave_out(Path(place) / link, "a link to a folder: name it itself")
        folders[:] = sorted(_visible_files(folders, gathered))
        for name in sorted(_visible_files(names, gathered)):
            gathered.add(Path(place) / name, named=False)


def _visible_files(names: Iterable[str], gathered: FileList) -> Iterator[str]:
    for name in names:
        if name.startswith("."):
            gathered.hidden += 1
        else:
            yield name


def _add_pattern(gathered: FileList, pattern: str) -> None:
    """Match as a shell does: hidden files only where the pattern begins with a dot; `**` follows no link."""
    anchor = Path(pattern).anchor
    parts = Path(pattern).relative_to(anchor).parts
    try:
        found = sorted(Path(anchor or ".").glob(str(Path(*parts))))
    except (ValueError, OSError) as error:
        gathered.leave_out(pattern, str(error), is_fault=True)
        return
    wanted = [path for path in found if _is_hidden(parts) or not _is_hidden(path.parts)]
    if not wanted:
        gathered.leave_out(pattern, "nothing is like this", is_fault=True)
    for path in wanted:
        _add(gathered, path, named=False)


def _is_hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith(".") and part != ".." for part in parts)


def _standard_input(name: str, gathered: FileList) -> list[LocalFile]:
    if sys.stdin.isatty():
        gathered.leave_out(name, "nothing is piped in", is_fault=True)
        return []
    # Kept, so that it can be hashed, measured and sent again.
    kept = tempfile.SpooledTemporaryFile(max_size=SMALL)  # noqa: SIM115 - it goes with the process
    shutil.copyfileobj(sys.stdin.buffer, kept)
    size = kept.tell()
    if size == 0:
        gathered.leave_out(name, "the file is empty", is_fault=True)
        return []
    return [LocalFile(shown=printable(name), source=kept, filename=name, size=size)]
