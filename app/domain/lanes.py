"""A lane is a queue and a number of slots: what keeps a core busy never waits behind what waits for others."""

from enum import StrEnum

from app.domain import selftest, webhooks


class Lane(StrEnum):
    OCR = "ocr"
    """Bound by the processor."""
    LLM = "llm"
    """Bound by a model server."""
    WEBHOOK = "webhook"
    """Bound by the receivers."""


TEXT = "ocr"
"""The kind that makes a document's text."""

NEED_TEXT = frozenset({"summarize", "extract", "classify", "ask"})
"""Kinds that read a document's text: such a job waits until an `ocr` job of the document has ended."""

LANE_OF_KIND = {TEXT: Lane.OCR, selftest.KIND: Lane.OCR, webhooks.KIND: Lane.WEBHOOK} | dict.fromkeys(
    NEED_TEXT, Lane.LLM
)
"""Every job kind that this version knows."""
