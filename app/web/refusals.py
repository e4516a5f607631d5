"""What a request can be refused with, said where it is decided: at the dependency that looks, or at the route."""

from collections.abc import Callable
from typing import Any, TypeVar

from app.domain.errors import DairaError

Call = TypeVar("Call", bound=Callable[..., Any])


def refuses(*errors: type[DairaError]) -> Callable[[Call], Call]:
    """For the OpenAPI document, which tells of each operation what its dependencies and itself refuse with."""

    def note(call: Call) -> Call:
        call.__dict__["refuses"] = errors
        return call

    return note


def refusals(call: Callable[..., Any] | None) -> tuple[type[DairaError], ...]:
    found: tuple[type[DairaError], ...] = getattr(call, "refuses", ())
    return found
