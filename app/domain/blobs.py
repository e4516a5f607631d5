"""Where a blob lies: `tenant/name`, and nothing that a path could mean besides."""

import re

from app.domain.errors import Invalid
from app.domain.ids import TENANT_PATTERN, TenantId

NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}")
"""No dot: neither `..` nor a clash with the dot files of a store, and lower case for file systems that fold it."""


def parse_blob_key(key: str) -> tuple[TenantId, str]:
    """The tenant and the name; raises Invalid for any other shape."""
    tenant, _, name = key.partition("/")
    if not TENANT_PATTERN.fullmatch(tenant) or not NAME_PATTERN.fullmatch(name):
        raise Invalid("a blob's key is tenant/name, of lower-case letters, digits, - and _")
    return TenantId(tenant), name
