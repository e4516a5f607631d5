"""Descriptions of headers. An answer's headers follow from its status and its operation's parameters."""

from typing import Any

TEXT = {"type": "string"}
SECONDS = {"type": "integer", "minimum": 0}

DESCRIPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Request-ID": ("The request's id, also in the log; quote it when you report a problem.", TEXT),
    "RateLimit-Policy": ('The limit: `"requests";q=600;w=60` allows 600 requests in 60 seconds.', TEXT),
    "RateLimit": ('The rest of the limit: `"requests";r=580;t=12` leaves 580 requests for the next 12 seconds.', TEXT),
    "Retry-After": ("Seconds to wait before the next try.", SECONDS),
    "WWW-Authenticate": ("The way to authenticate.", TEXT),
    "Location": ("The address of the resource that was made or found.", TEXT),
    "Idempotency-Replayed": ("`true` if the request had been done before.", {"type": "string", "enum": ["true"]}),
    "Link": ('The address of the next page, if there is one: `<…>; rel="next"`.', TEXT),
    "Preference-Applied": ("The part of `Prefer` that was honoured.", TEXT),
    "ETag": ("The tag of these bytes, for If-None-Match and If-Range.", TEXT),
    "Content-Disposition": ("The file's name, in ASCII and in full.", TEXT),
    "Content-Range": ("The range, and the number of all bytes.", TEXT),
    "Accept-Ranges": ("`bytes`: a range of bytes may be requested.", TEXT),
    "Allow": ("The methods of this address.", TEXT),
}

REQUEST_HEADERS = {
    "If-None-Match": "ETags of answers that the client has; a current one is answered with 304.",
    "Prefer": "`wait=N`: answer as soon as the jobs have ended, or after N seconds.",
}
"""Request headers that routes read themselves, because each declared parameter costs every request time."""

ALWAYS = {"X-Request-ID", "WWW-Authenticate", "Location"}
"""Headers that every answer has for which they are described."""

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
"""The header that a good answer has if its operation has the parameter."""

BY_STATUS = {401: {"WWW-Authenticate"}, 429: {"Retry-After"}, 503: {"Retry-After"}, 409: {"Retry-After"}}
CREATED = {"201", "202"}


def header_parameters(*names: str) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads these headers itself."""
    described = [{"name": name, "in": "header", "schema": TEXT, "description": REQUEST_HEADERS[name]} for name in names]
    return {"parameters": described}


def header_responses(*names: str) -> dict[str, Any]:
    """Return an entry for the `responses` of a route whose answer has these headers."""
    return {"headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names}}


def headers_of(operation: dict[str, Any], *, status: int) -> dict[str, Any]:
    names = {"X-Request-ID"} | BY_STATUS.get(status, set())
    if operation.get("security") and status != 401:  # noqa: PLR2004 - an unknown caller has no rate
        names |= {"RateLimit", "RateLimit-Policy"}
    if 200 <= status < 300 or status == 304:  # noqa: PLR2004 - good answers
        parameters = {parameter["name"].lower() for parameter in operation.get("parameters", ())}
        names |= {header for parameter, header in BY_PARAMETER.items() if parameter in parameters}
        names |= {"Location"} if CREATED & operation["responses"].keys() else set()
    found: dict[str, Any] = header_responses(*sorted(names))["headers"]
    return found
