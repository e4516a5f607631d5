"""A file's name as a client sent it: shown to people, never part of a path."""

import unicodedata

LIMIT = 255
"""Characters kept."""

UNNAMED = "document"


def displayable(name: str) -> str:
    """The last part of a path, without what can't be seen or turns text around (Unicode category C)."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    seen = "".join(character for character in last if unicodedata.category(character)[0] != "C").strip()
    return seen[:LIMIT] or UNNAMED
