"""The port of calls that are made elsewhere, within limits."""

from typing import Any, Protocol


class BoundedCaller(Protocol):
    async def call(self, argument: dict[str, Any]) -> dict[str, Any] | None:
        """Call the function with a JSON object. None when it took more CPU time than allowed.

        Raises Unavailable when it can't be called now. Cancelling ends it at once.
        """
        ...
