"""Detects text in a document that addresses a language model. It confirms no value, and the reader is warned of it.

It is detected by its usual wording, and an author can choose another. So this is a warning and not a protection. The
protection is that a model's answer is a claim, which has to be found elsewhere in the document.
"""

import re
from collections.abc import Iterator

LINES_BEHIND = 2
"""Lines of the same paragraph that belong to an order, after the one that it begins in."""

INSTRUCTIONS = re.compile(
    r"""
    \b(?:ignore|disregard|forget|override|bypass)\b [^.]{0,60}? \b(?:instruction|prompt|rule|guideline|command)s?\b
    | \b(?:ignorier|vergiss|missachte)\w* [^.]{0,60}? \b(?:anweisung|instruktion|regel|vorgabe)\w*
    | \b(?:ignor|oubli|olvid|dimentic)\w* [^.]{0,60}? \b(?:instruc|instruç|istruzion|consigne|regla|règle)\w*
    | \b(?:system|developer)\s+(?:prompt|message)\b
    | \byou\s+are\s+(?:now\s+)?(?:an?\s+)?(?:ai\b|assistant\b|chatbot\b|(?:large\s+)?language\s+model\b)
    | \b(?:note|message|attention|hint)\s+(?:to|for)\s+(?:the\s+|any\s+|all\s+)?(?:ais?\b|llms?\b|language\s+models?\b)
    | </?(?:system|assistant|instructions?)> | \[/?INST\] | <\|im_(?:start|end)\|>
    """,
    re.IGNORECASE | re.VERBOSE,
)


HINTS = (
    "ignor", "disregard", "forget", "overrid", "bypass", "vergiss", "missacht", "oubli", "olvid", "dimentic", "system",
    "developer", "assistant", "chatbot", "language", "inst", "im_", " ai", "ai ", "llm",
)  # fmt: skip
"""A text without any of these has no order, so that a thousand pages are checked in a moment."""


def instructions_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each order in the text."""
    lowered = text.lower()
    if not any(hint in lowered for hint in HINTS):
        return
    for found in INSTRUCTIONS.finditer(text):
        start = text.rfind("\n", 0, found.start()) + 1
        yield start, _end(text, found.end())


def _end(text: str, at: int) -> int:
    paragraph = text.find("\n\n", at)
    paragraph = len(text) if paragraph < 0 else paragraph
    for _ in range(LINES_BEHIND + 1):
        line = text.find("\n", at, paragraph)
        if line < 0:
            return paragraph
        at = line + 1
    return at
