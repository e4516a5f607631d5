"""Headers, described once. Which answer has which, its status and its operation's parameters tell."""

from typing import Any

TEXT = {"type": "string"}
SECONDS = {"type": "integer", "minimum": 0}

DESCRIPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Request-ID": ("The request's id, in the log as well: quote it when you report something.", TEXT),
    "RateLimit-Policy": ('What may be asked: `"requests";q=600;w=60`, so many in so many seconds.', TEXT),
    "RateLimit": ('What is left of it: `"requests";r=580;t=12`, so many in the next seconds.', TEXT),
    "Retry-After": ("Seconds to wait before asking again.", SECONDS),
    "WWW-Authenticate": ("How to authenticate.", TEXT),
    "Location": ("The address of what was made, or found.", TEXT),
    "Idempotency-Replayed": ("`true` where the request had been done before.", {"type": "string", "enum": ["true"]}),
    "Link": ('Where the next page is, if there is one: `<…>; rel="next"`.', TEXT),
    "Preference-Applied": ("What of `Prefer` was honoured.", TEXT),
    "ETag": ("Names these bytes, for If-None-Match and If-Range.", TEXT),
    "Content-Disposition": ("The file's name, in ASCII and in full.", TEXT),
    "Content-Range": ("Which of how many bytes.", TEXT),
    "Accept-Ranges": ("That ranges of bytes may be asked for.", TEXT),
    "Allow": ("The methods of this address.", TEXT),
}

LOOKED_AT = {
    "If-None-Match": "ETags of answers that are there already: 304 for one of them.",
    "Prefer": "`wait=N`: answer as soon as the jobs have ended, or after N seconds.",
}
"""Of requests, where the route reads them itself: each one that is declared as a parameter costs every request time."""

ALWAYS = {"X-Request-ID", "WWW-Authenticate", "Location"}
"""Wherever they are described at all."""

COMPONENTS = {
    name: {"description": description, "schema": schema} | ({"required": True} if name in ALWAYS else {})
    for name, (description, schema) in DESCRIPTIONS.items()
}

BY_PARAMETER = {
    "idempotency-key": "Idempotency-Replayed",
    "cursor": "Link",
    "prefer": "Preference-Applied",
    "if-none-match": "ETag",
}
"""What a good answer has where an operation has the parameter."""

BY_STATUS = {401: {"WWW-Authenticate"}, 429: {"Retry-After"}, 503: {"Retry-After"}, 409: {"Retry-After"}}
CREATED = {"201", "202"}


def looks_at(*names: str) -> dict[str, Any]:
    """For the `openapi_extra` of a route."""
    described = [{"name": name, "in": "header", "schema": TEXT, "description": LOOKED_AT[name]} for name in names]
    return {"parameters": described}


def shown(*names: str) -> dict[str, Any]:
    """For the `responses` of a route."""
    return {"headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names}}


def headers_of(operation: dict[str, Any], *, status: int) -> dict[str, Any]:
    names = {"X-Request-ID"} | BY_STATUS.get(status, set())
    if operation.get("security") and status != 401:  # noqa: PLR2004 - who is not known has no rate
        names |= {"RateLimit", "RateLimit-Policy"}
    if 200 <= status < 300 or status == 304:  # noqa: PLR2004 - good answers
        parameters = {parameter["name"].lower() for parameter in operation.get("parameters", ())}
        names |= {header for parameter, header in BY_PARAMETER.items() if parameter in parameters}
        names |= {"Location"} if CREATED & operation["responses"].keys() else set()
    found: dict[str, Any] = shown(*sorted(names))["headers"]
    return found
