"""The job kind `selftest`, and the marks that distinguish the rows of a selftest from an operator's own."""

import re
import secrets
from datetime import timedelta

from app.domain.ids import TenantId

KIND = "selftest"

LONGEST = timedelta(seconds=30)
"""The longest duration that a job of this kind can be asked for, because it occupies a worker's slot."""

MEDIA_TYPE = "application/x-daira-selftest"
"""The media type of its documents. No upload can have it, because a type is detected from the bytes."""

KEY_NAME = "selftest"

PREFIX = "selftest-"
_NAME = re.compile(PREFIX + "[0-9a-f]{16}")


def new_tenant() -> TenantId:
    """Return a name that no other run has, at the same time or earlier."""
    return TenantId(PREFIX + secrets.token_hex(8))


def is_ours(name: TenantId) -> bool:
    """Check the name only. Before a tenant is removed for it, its rows must also be those that a selftest makes."""
    return _NAME.fullmatch(name) is not None
