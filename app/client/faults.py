"""The server's refusals, in its own words."""

import math
from datetime import UTC
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
        """Faults of invalid input: each `pointer` (RFC 6901) with its `detail`."""

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        """The body must have been read."""
        try:
            problem = response.json()
            return cls(
                code=problem["code"], detail=problem["detail"], errors=problem.get("errors"), **_of_the_head(response)
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls.of_another(response)

    @classmethod
    def of_another(cls, response: httpx.Response) -> Self:
        """Whoever has answered: it was not the service."""
        detail = f"an answer that is not Daira's: is {response.url} the right address?"
        if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            detail = "a proxy in front of Daira takes no file of this size: it has a limit of its own"
        return cls(code="unexpected", detail=detail, **_of_the_head(response))


def _of_the_head(response: httpx.Response) -> dict[str, Any]:
    return {
        "status": response.status_code,
        "request_id": response.headers.get("X-Request-ID"),
        "retry_after": _seconds(response.headers.get("Retry-After"), date=response.headers.get("Date")),
    }


def _seconds(retry_after: str | None, *, date: str | None) -> float | None:
    """RFC 9110: seconds, or a date, which proxies like. A date counts from the server's own, because clocks differ."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
        return seconds if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return max(0.0, _timestamp(retry_after) - _timestamp(date or ""))
    except (ValueError, OverflowError):
        return None


def _timestamp(date: str) -> float:
    moment = parsedate_to_datetime(date)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
