"""The zip archive of an OOXML or ODF file. Bytes are counted while they are inflated, to stop zip bombs."""

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
"""Inflated bytes of all parts that are read. A workbook of a million rows has 100 MB of XML; pictures aren't read."""
MOST_DECLARED = 1024 * 1024 * 1024
"""Declared bytes of all entries. Pictures and films count too; they hardly shrink, so the upload limit bounds them."""
_RATIO = 250
_RATIO_FROM = 10 * 1024 * 1024
"""Inflated bytes from which `_RATIO` limits compression. XML of equal rows shrinks to a hundredth, a bomb to less."""
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
"""Exceptions that zipfile raises on damaged files, besides OSError without an errno."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRelation:
    """A reference from one part of the package to another."""

    kind: str
    """The last word of the relation's type: `worksheet`, `header`, `notesSlide`."""
    target: str
    """The name of the part that it refers to."""


class ZipPackage:
    """Reads the parts of a package, within limits. Raises DocumentFault (corrupt, encrypted, too_large)."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._inflated = 0
        entries = archive.infolist()
        if len(entries) > MOST_ENTRIES:
            raise too_large(f"The document consists of more than {MOST_ENTRIES:,} files")
        if sum(entry.file_size for entry in entries) > MOST_DECLARED:
            raise _zip_bomb_fault()
        # Of two entries with one name the later counts. Some writers for Windows separate folders by backslashes.
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
        """The name of the main part. Raises DocumentFault (corrupt) if there is none."""
        for relation in self.relations("").values():
            if relation.kind == "officeDocument":
                return relation.target
        raise damaged("document")

    def relations(self, part: str) -> Mapping[str, PackageRelation]:
        """The relations of `part` to other parts of the package by id; relations to the outside are left out."""
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
    """The part's name in lower case, because case does not matter (ISO 29500-2)."""
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
