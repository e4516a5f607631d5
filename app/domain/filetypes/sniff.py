"""Detects a file's type from its bytes as they pass.

The first bytes decide, except in a container, whose type is known at its end. Memory stays bounded: the end of a zip is
buffered, because its directory is there; of a compound file nothing is buffered.
"""

import io
import re
import zipfile
from typing import Protocol

from app.domain.errors import Unsupported
from app.domain.filetypes.text import text_type
from app.domain.filetypes.types import DOCX, ENCRYPTED, HEAD, ODP, ODS, ODT, PDF, PPTX, RTF, SUPPORTED, XLSX, image_type

LONGEST_DIRECTORY = 1024 * 1024
"""The longest directory of a zip, in bytes at its end: some 10,000 entries.
A presentation with 500 slides has 3,000."""


class Sniffer:
    """Detects one file's type.

    Raises Unsupported with the types to send instead, in the constructor if the first bytes decide, else in
    `media_type`. `head` is the file's first HEAD bytes or more, or the whole file.
    """

    def __init__(self, head: bytes) -> None:
        self._container = _container(head)
        self._media_type = None if self._container else _media_type(head[:HEAD])

    def feed(self, chunk: bytes) -> None:
        """Take the file's bytes in order, including those of the head."""
        if self._container:
            self._container.feed(chunk)

    def media_type(self) -> str:
        """Return the media type. Call it when all bytes have passed."""
        if self._container:
            return self._container.media_type()
        assert self._media_type is not None, "known from the head"
        return self._media_type


class _Container(Protocol):
    def feed(self, chunk: bytes) -> None: ...

    def media_type(self) -> str: ...


def _container(head: bytes) -> _Container | None:
    if image_type(head) is None:
        if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return _Zip(head)
        if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
            return _CompoundFile()
    return None


def _media_type(head: bytes) -> str:
    media_type = image_type(head)
    if media_type is None and head.startswith(b"{\\rtf"):
        media_type = RTF
    # PDF readers accept junk before the header, and mail gateways put it there.
    if media_type is None and b"%PDF-" in head:
        media_type = PDF
    media_type = media_type or text_type(head)
    if media_type is None:
        raise Unsupported(f"this type of file is not supported: send {SUPPORTED}")
    return media_type


class _Zip:
    """A zip that may be OOXML or ODF, detected as its readers do: by the directory at the end, in any order."""

    _OFFICE = (
        (re.compile(r"word/document\d*\.xml"), DOCX),
        (re.compile(r"xl/workbook\d*\.xml"), XLSX),
        (re.compile(r"ppt/presentation\d*\.xml"), PPTX),
    )
    _OPEN = re.compile(
        rb"mimetype(application/vnd\.oasis\.opendocument\.(?:text|spreadsheet|presentation))(?:-template)?"
    )
    _OPEN_TYPES = frozenset({ODT, ODS, ODP})

    def __init__(self, head: bytes) -> None:
        # ODF requires it first and uncompressed: 30 bytes of header, the name and, without an extra field, the type.
        declared = self._OPEN.match(head, 30)
        self._declared = declared[1].decode() if declared else None
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._kept += chunk
        # Cut rarely: cutting with every chunk would move the whole buffer each time.
        if len(self._kept) > 2 * LONGEST_DIRECTORY:
            del self._kept[:-LONGEST_DIRECTORY]

    def media_type(self) -> str:
        names = self._names()
        if "[content_types].xml" in names:
            for pattern, media_type in self._OFFICE:
                if any(map(pattern.fullmatch, names)):
                    return media_type
        if {"content.xml", "meta-inf/manifest.xml"} <= names or {"encrypted-package", "meta-inf/manifest.xml"} <= names:
            return self._declared or ODT
        if "xl/workbook.bin" in names:
            raise Unsupported("a binary workbook (XLSB) is not supported: save it as XLSX")
        raise Unsupported(f"this archive is not a document: unpack it and send its files as {SUPPORTED}")

    def _names(self) -> set[str]:
        try:
            with zipfile.ZipFile(io.BytesIO(self._kept[-LONGEST_DIRECTORY:])) as archive:
                return {name.replace("\\", "/").lower() for name in archive.namelist()}
        except Exception as error:  # zipfile raises many kinds of errors on a damaged directory
            raise Unsupported(
                "this archive is cut short or damaged: if it is a document, save it again and send that file"
            ) from error


class _CompoundFile:
    """A file of Office before 2007, an Outlook message, or the wrapper of an Office document with a password."""

    _ENTRY = 128
    """Bytes of a directory entry. Entries lie at multiples of it, wherever the directory is."""
    _KINDS = (
        ("EncryptedPackage", ""),
        ("WordDocument", "a Word document from before 2007 (DOC) is not supported: save it as DOCX or PDF"),
        ("Workbook", "an Excel workbook from before 2007 (XLS) is not supported: save it as XLSX"),
        ("Book", "an Excel workbook from before 2007 (XLS) is not supported: save it as XLSX"),
        ("PowerPoint Document", "a presentation from before 2007 (PPT) is not supported: save it as PPTX or PDF"),
        ("__properties_version1.0", "an Outlook message (MSG) is not supported: save it as EML or PDF"),
    )

    def __init__(self) -> None:
        self._found: set[str] = set()
        self._tail = b""
        self._passed = 0
        """The tail's offset in the file."""

    def feed(self, chunk: bytes) -> None:
        window = self._tail + chunk
        for name, _ in self._KINDS:
            if name not in self._found and self._has_entry(window, name):
                self._found.add(name)
        self._tail = window[-self._ENTRY :]
        self._passed += len(window) - len(self._tail)

    def _has_entry(self, window: bytes, name: str) -> bool:
        wanted = f"{name}\0".encode("utf-16-le")
        at = window.find(wanted)
        while at >= 0:
            if (self._passed + at) % self._ENTRY == 0:
                return True
            at = window.find(wanted, at + 1)
        return False

    def media_type(self) -> str:
        for name, refusal in self._KINDS:
            if name in self._found:
                if refusal:
                    raise Unsupported(refusal)
                return ENCRYPTED
        raise Unsupported(f"this type of file is not supported: send {SUPPORTED}")
