"""The zip that OOXML and ODF come in, opened with care: what is read is counted while it is inflated."""

import errno
import posixpath
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from app.reading.faults import damaged, password_protected, too_large
from app.reading.office.xml import XmlWalker, walk

MOST_ENTRIES = 10_000
MOST_INFLATED = 200 * 1024 * 1024
"""Bytes of all parts that are read. A workbook of a million rows has 100 MB of XML; pictures are never inflated."""
MOST_DECLARED = 1024 * 1024 * 1024
"""Bytes of all entries, pictures and films among them, which the upload bounds because they hardly shrink."""
_RATIO = 250
_RATIO_FROM = 10 * 1024 * 1024
"""XML of equal rows shrinks to a hundredth; what shrinks to less and is not small is a bomb."""
_CHUNK = 64 * 1024
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_IS_ENCRYPTED = 0x1
_BLAMED_ON_THE_FILE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    LookupError,
    NotImplementedError,
    OverflowError,
    ValueError,
    RuntimeError,
)
"""Exceptions that zipfile was seen to raise on damaged files, besides OSError without an errno."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRelation:
    kind: str
    """The last word of its type: `worksheet`, `header`, `notesSlide`."""
    target: str
    """The name of a part."""


class ZipPackage:
    """Raises DocumentFault (corrupt, encrypted, too_large)."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._inflated = 0
        entries = archive.infolist()
        if len(entries) > MOST_ENTRIES:
            raise too_large(f"The document consists of more than {MOST_ENTRIES:,} files")
        if sum(entry.file_size for entry in entries) > MOST_DECLARED:
            raise _zip_bomb_fault()
        # Of two entries with one name the later is meant. Some writers for Windows separate folders by backslashes.
        self._entries = {_part(entry.filename): entry for entry in entries}

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        with _faults(), zipfile.ZipFile(path) as archive:
            yield cls(archive)

    def __contains__(self, name: str) -> bool:
        return _part(name) in self._entries

    def walk(self, name: str, walker: XmlWalker) -> None:
        walk(self._chunks(name), walker)

    def walk_if_there(self, name: str, walker: XmlWalker) -> None:
        if name in self:
            self.walk(name, walker)

    def main(self) -> str:
        """The part that the package is about."""
        for relation in self.relations("").values():
            if relation.kind == "officeDocument":
                return relation.target
        raise damaged("document")

    def relations(self, part: str) -> Mapping[str, PackageRelation]:
        """By id, those of `part` to others within the package; never those to the outside."""
        folder, name = posixpath.split(part)
        reading = _Relations(folder)
        self.walk_if_there(posixpath.join(folder, "_rels", f"{name}.rels"), reading)
        return reading.found

    def _chunks(self, name: str) -> Iterator[bytes]:
        entry = self._entries.get(_part(name))
        if entry is None or entry.compress_type not in _METHODS:
            raise damaged("document")
        if entry.flag_bits & _IS_ENCRYPTED:
            raise password_protected("document")
        inflated = 0
        with self._archive.open(entry) as stream:
            while chunk := stream.read(_CHUNK):
                inflated += len(chunk)
                self._inflated += len(chunk)
                if self._inflated > MOST_INFLATED or inflated > max(_RATIO_FROM, entry.compress_size * _RATIO):
                    raise _zip_bomb_fault()
                yield chunk


class _Relations:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.found: dict[str, PackageRelation] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        target = attributes.get("Target", "")
        if tag == "Relationship" and attributes.get("TargetMode") != "External":
            kind = attributes.get("Type", "").rpartition("/")[2]
            self.found[attributes.get("Id", "")] = PackageRelation(kind=kind, target=self._resolved(target))

    def end(self, tag: str) -> None: ...

    def data(self, text: str) -> None: ...

    def _resolved(self, target: str) -> str:
        return posixpath.normpath(posixpath.join("/", self._folder, target.replace("\\", "/"))).lstrip("/")


def _part(name: str) -> str:
    """Names of parts are the same in any case (ISO 29500-2)."""
    return name.replace("\\", "/").lstrip("/").lower()


def _zip_bomb_fault() -> Exception:
    return too_large("The document grows too large when it is unpacked")


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise
    except _BLAMED_ON_THE_FILE as error:
        raise damaged("document") from error
    except OSError as error:
        # EINVAL: an offset that the file does not have.
        if error.errno not in {None, errno.EINVAL}:
            raise
        raise damaged("document") from error
