"""Errors of jobs as tenants read them: codes that are documented, and our own sentences.

The cause of an unforeseen error is the operator's. The log has it, with the job's id and the attempt.
"""

import re

from app.domain.errors import Unavailable
from app.domain.jobs import JobError
from app.domain.leases import Lease

CODES = frozenset(
    {
        # The document.
        "encrypted", "corrupt", "empty", "too_many_pages", "too_large", "unsupported", "timeout",
        # The language model.
        "llm_not_configured", "llm_refused", "llm_invalid_output", "llm_context_exceeded",
        # The service.
        "not_ready", "unavailable", "worker_lost", "cancelled", "internal",
        # A delivery to a webhook, besides the receiver's status.
        "busy", "webhook_gone", "webhook_disabled", "job_gone", "no_address", "no_connection", "broken",
    }
)  # fmt: skip
"""The codes of job errors: docs/how-to/errors.md and docs/webhooks.md say what each means."""

RECEIVER_STATUS = re.compile(r"status_[1-9][0-9]{2}")


def is_documented(code: str) -> bool:
    return code in CODES or RECEIVER_STATUS.fullmatch(code) is not None


def internal_error(lease: Lease) -> JobError:
    where = f"job {lease.job_id}, attempt {lease.attempt}"
    return JobError(
        code="internal", message=f"an unforeseen error: report {where}, to the service's operator, whose log names it"
    )


def unavailable_error(lease: Lease, error: Unavailable) -> JobError:
    where = f"job {lease.job_id}, attempt {lease.attempt}"
    sentence = f"a part of the service was not available; its operator's log names it ({where})"
    return JobError(code=error.code, message=error.public or sentence)
