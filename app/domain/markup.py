"""Text within XML and HTML: what they can hold, and nothing that could end, open or turn around anything."""

import re

from app.domain.pages import Page

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""By XML 1.0 (section 2.2), which has no way to write them, and the C1 controls that it advises against."""

_REFERENCES = {
    ord(character): f"&#x{ord(character):X};"
    # The last ones turn the text around that follows them: written out, nobody who reads the source is deceived.
    for character in "&<>\"'\t\n\r\x85\u2028\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
} | {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;"}

_LANGUAGE = re.compile("[a-z]{3}")


def escaped(text: str) -> str:
    """For an element's text as well as for an attribute's value in double or single quotes."""
    return _FORBIDDEN.sub("\ufffd", text).translate(_REFERENCES)


def language_of(page: Page) -> str | None:
    """As a BCP 47 tag; None where a page is in several."""
    return page.language if _LANGUAGE.fullmatch(page.language) else None
