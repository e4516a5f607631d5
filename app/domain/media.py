"""The types of file that can be read, told from their first bytes. A name or header of the client's is not asked."""

HEAD = 1024
"""Bytes that are enough to tell."""

PDF = "application/pdf"

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"II+\x00", "image/tiff"),
    (b"MM\x00+", "image/tiff"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


def sniff(head: bytes) -> str | None:
    """The media type, or None for anything that can't be read here."""
    for signature, media_type in _SIGNATURES:
        if head.startswith(signature):
            return media_type
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    # Readers of PDF accept junk before the header, and mail gateways put it there.
    if b"%PDF-" in head[:HEAD]:
        return PDF
    return None
