"""Doorbells and lanes.

A doorbell says that a job may be due, and nothing else about it. A lane is a queue and a number of worker slots. Lanes
are separate, so that work that keeps a core busy never waits behind work that waits for other systems.
"""

import json
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from app.domain import selftest, webhooks
from app.domain.errors import Invalid
from app.domain.ids import JobId, TenantId, tenant_id


class Lane(StrEnum):
    OCR = "ocr"
    """Jobs bound by the processor."""
    LLM = "llm"
    """Jobs bound by a model server."""
    WEBHOOK = "webhook"
    """Jobs bound by the receivers."""


TEXT_KIND = "ocr"
"""The kind of job that makes a document's text."""

NEED_TEXT = frozenset({"summarize", "extract", "classify", "ask"})
"""Kinds that read a document's text. Such a job waits until an `ocr` job of the document has ended."""

LANE_OF_KIND = {TEXT_KIND: Lane.OCR, selftest.KIND: Lane.OCR, webhooks.KIND: Lane.WEBHOOK} | dict.fromkeys(
    NEED_TEXT, Lane.LLM
)
"""Every job kind that this version knows."""


MESSAGE_LIMIT = 1024
"""Bytes; a genuine message has at most 150."""


class Ring(NamedTuple):
    tenant_id: TenantId
    job_id: JobId


def parse_ring(message: bytes | str) -> Ring:
    """Read a queue message. Fields beyond the two are ignored. Raises Invalid for anything else."""
    if len(message) > MESSAGE_LIMIT:
        raise Invalid("a doorbell is at most 1 KiB")
    try:
        fields = json.loads(message)
        tenant, job = fields["tenant_id"], fields["job_id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Invalid("a doorbell is a JSON object with job_id and tenant_id") from None
    return ring(tenant, job)


def ring(tenant: object, job: object) -> Ring:
    if not isinstance(tenant, str) or not isinstance(job, str):
        raise Invalid("a doorbell's job_id and tenant_id are strings")
    try:
        return Ring(tenant_id(tenant), JobId(UUID(job)))
    except ValueError:
        raise Invalid("a doorbell's job_id is a UUID") from None


def ring_message(ring: Ring) -> str:
    return json.dumps({"job_id": str(ring.job_id), "tenant_id": ring.tenant_id})
