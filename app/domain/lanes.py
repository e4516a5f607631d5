"""A lane is a queue and a number of slots: what keeps a core busy never waits behind what waits for others."""

from enum import StrEnum

from app.domain import selftest


class Lane(StrEnum):
    OCR = "ocr"
    """Bound by the processor."""
    LLM = "llm"
    """Bound by a model server."""
    WEBHOOK = "webhook"
    """Bound by the receivers."""


LANE_OF_KIND = {"ocr": Lane.OCR, selftest.KIND: Lane.OCR}
"""Every job kind that this version knows."""
