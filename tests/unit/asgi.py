"""A request as a server hands it to the application, for tests that watch an answer on its way."""

from typing import Any

import httpx


def scope_of(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    """A GET with all that the client always sends."""
    request = client.build_request("GET", path)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "path": request.url.path,
        "raw_path": request.url.raw_path,
        "query_string": request.url.query,
        "root_path": "",
        "scheme": "http",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 1),
        "server": ("daira.test", 80),
        "state": {},
    }
