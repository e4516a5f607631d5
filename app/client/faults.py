"""What the server refuses, in its own words."""

import time
from email.utils import parsedate_to_datetime
from typing import Any, Self

import httpx


class ApiFault(Exception):
    """`code` and `detail` as in the server's problem document (RFC 9457)."""

    def __init__(
        self,
        *,
        status: int,
        code: str,
        detail: str,
        request_id: str | None = None,
        retry_after: float | None = None,
        errors: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(f"{detail} ({code}, HTTP {status})")
        self.status = status
        self.code = code
        self.detail = detail
        self.request_id = request_id
        """To be quoted when something is reported."""
        self.retry_after = retry_after
        """Seconds; None where the server does not ask to come again."""
        self.errors = errors or []
        """Of what is invalid: each `pointer` (RFC 6901) with its `detail`."""

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        """The body must have been read."""
        told: dict[str, Any] = {
            "status": response.status_code,
            "request_id": response.headers.get("X-Request-ID"),
            "retry_after": _seconds(response.headers.get("Retry-After")),
        }
        try:
            problem = response.json()
            return cls(code=problem["code"], detail=problem["detail"], errors=problem.get("errors"), **told)
        except (ValueError, KeyError, TypeError, AttributeError):
            detail = f"an answer that is not Daira's: is {response.url} the right address?"
            return cls(code="unexpected", detail=detail, **told)


def _seconds(retry_after: str | None) -> float | None:
    """RFC 9110: seconds, or a date, which proxies like."""
    if retry_after is None:
        return None
    try:
        return float(retry_after)
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None
