"""The types of file that can be read, their names, and the signatures of images.

A type is detected from the bytes; the client's name or header is not used. A file that fits several types is the first
of these: an image by its signature, a zip, a compound file, RTF, a PDF (its header within the first 1,024 bytes), HTML,
a mail, plain text.
"""

from types import MappingProxyType

HEAD = 1024
"""Bytes that are enough to detect a type, unless it is in a container."""

PDF = "application/pdf"
PNG = "image/png"
JPEG = "image/jpeg"
TIFF = "image/tiff"
WEBP = "image/webp"
GIF = "image/gif"
BMP = "image/bmp"
HEIC = "image/heic"
HEIF = "image/heif"
AVIF = "image/avif"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
ODT = "application/vnd.oasis.opendocument.text"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
ODP = "application/vnd.oasis.opendocument.presentation"
HTML = "text/html"
EML = "message/rfc822"
RTF = "application/rtf"
TEXT = "text/plain"
ENCRYPTED = "application/encrypted"
"""An Office document with a password. It is accepted, so that its job can report the password."""

NAMES = MappingProxyType(
    {
        PDF: "PDF",
        PNG: "PNG",
        JPEG: "JPEG",
        TIFF: "TIFF",
        WEBP: "WebP",
        GIF: "GIF",
        BMP: "BMP",
        HEIC: "HEIC",
        HEIF: "HEIF",
        AVIF: "AVIF",
        DOCX: "DOCX",
        XLSX: "XLSX",
        PPTX: "PPTX",
        ODT: "ODT",
        ODS: "ODS",
        ODP: "ODP",
        RTF: "RTF",
        HTML: "HTML",
        EML: "EML",
        TEXT: "plain text (CSV and Markdown too)",
    }
)
"""Media type → common name, for exactly the types that can be read."""

IMAGES = frozenset({PNG, JPEG, TIFF, WEBP, GIF, BMP, HEIC, HEIF, AVIF})

_FIRST = list(NAMES.values())
SUPPORTED = f"{', '.join(_FIRST[:-1])} and {_FIRST[-1]}"
"""The types as a text for people, used in every message that lists them."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"\xff\xd8\xff", JPEG),
    (b"II*\x00", TIFF),
    (b"MM\x00*", TIFF),
    (b"II+\x00", TIFF),
    (b"MM\x00+", TIFF),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
)
_BMP_HEADERS = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
"""Sizes of the header that follows.
With only the two letters as a signature, texts about a car maker would be images."""
_BRANDS = (
    (AVIF, frozenset({b"avif", b"avis"})),
    (HEIC, frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"})),
    (HEIF, frozenset({b"mif1", b"msf1"})),
)
"""ISO 23008-12, annex B.
A file's own brand may be the general one, with the codec's brand only among the compatible ones."""


def image_type(head: bytes) -> str | None:
    """Return the media type of an image, by its signature; None for other files."""
    for signature, media_type in _SIGNATURES:
        if head.startswith(signature):
            return media_type
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return WEBP
    if head.startswith(b"BM") and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return BMP
    if head[4:8] == b"ftyp":
        return _by_brand(head)
    return None


def _by_brand(head: bytes) -> str | None:
    end = min(int.from_bytes(head[:4]), len(head))
    brands = {head[8:12], *(head[at : at + 4] for at in range(16, end - 3, 4))}
    return next((media_type for media_type, known in _BRANDS if brands & known), None)
