"""A file's name as a client sent it: shown to people, never part of a path."""

import re
import unicodedata

LIMIT = 255
"""Bytes kept, in UTF-8: what file systems take."""

UNNAMED = "document"

_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}\Z")


def displayable(name: str) -> str:
    """The last part of a path, composed (NFC), without what can't be seen or turns text around (Unicode category C)."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    seen = "".join(character for character in last if unicodedata.category(character)[0] != "C").strip()
    # One of dots alone is a folder's: whoever saved under it would miss the file.
    return _cut(unicodedata.normalize("NFC", seen)) if seen.strip(".") else UNNAMED


def _cut(name: str) -> str:
    """To LIMIT; what says the type of the file stays."""
    if len(name.encode()) <= LIMIT:
        return name
    suffix = found[0] if (found := _SUFFIX.search(name)) else ""
    return name.encode()[: LIMIT - len(suffix)].decode(errors="ignore") + suffix
