"""The job kind `selftest`, and the marks by which the rows of a selftest are known from an operator's own."""

import re
import secrets
from datetime import timedelta

from app.domain.ids import TenantId

KIND = "selftest"

LONGEST = timedelta(seconds=30)
"""That a job of this kind can be asked to take: a worker's slot is lent, not given away."""

MEDIA_TYPE = "application/x-daira-selftest"
"""Of its documents. No upload can have it: a type is told by the bytes."""

KEY_NAME = "selftest"

PREFIX = "selftest-"
_NAME = re.compile(PREFIX + "[0-9a-f]{16}")


def new_tenant() -> TenantId:
    """A name that no other run has, at the same time or earlier."""
    return TenantId(PREFIX + secrets.token_hex(8))


def is_ours(name: TenantId) -> bool:
    """The name alone; what is removed for it must also hold nothing but what a selftest makes."""
    return _NAME.fullmatch(name) is not None
