"""Errors that a request can be refused with, declared at the dependency or route that raises them."""

from collections.abc import Callable
from typing import Any, TypeVar

from app.domain.errors import DairaError

CallT = TypeVar("CallT", bound=Callable[..., Any])


def refuses(*errors: type[DairaError]) -> Callable[[CallT], CallT]:
    """Declare errors of a dependency or route. The OpenAPI document lists them with each operation that uses it."""

    def note(call: CallT) -> CallT:
        call.__dict__["refuses"] = errors
        return call

    return note


def refusals(call: Callable[..., Any] | None) -> tuple[type[DairaError], ...]:
    found: tuple[type[DairaError], ...] = getattr(call, "refuses", ())
    return found
