"""Where a tenant's events are sent to; how a receiver checks them is in docs/webhooks.md."""

from collections.abc import Iterator, Sequence

from app.client.calls import Body, Calls, part


class Webhooks:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def create(self, url: str, *, events: Sequence[str] | None = None, description: str = "") -> Body:
        """With its `secret`, which is shown this once. Without `events`: all of them."""
        wanted = {"url": url, "description": description} | ({"events": list(events)} if events else {})
        return self._calls.json("POST", "/v1/webhooks", json=wanted)

    def list(self) -> Iterator[Body]:
        """Newest first."""
        return self._calls.all("/v1/webhooks", {})

    def delete(self, webhook_id: str) -> None:
        self._calls.call("DELETE", self._path(webhook_id))

    def rotate(self, webhook_id: str, *, overlap_seconds: int | None = None) -> Body:
        """With its new `secret`. For the overlap, a day if not said, the former one signs too."""
        wanted = {} if overlap_seconds is None else {"overlap_seconds": overlap_seconds}
        return self._calls.json("POST", f"{self._path(webhook_id)}/rotate", json=wanted)

    def enable(self, webhook_id: str) -> Body:
        """Send again, after it was disabled by its failures."""
        return self._calls.json("POST", f"{self._path(webhook_id)}/enable", twice=True)

    def test(self, webhook_id: str) -> Body:
        """The delivery of a `webhook.test` event, a job."""
        return self._calls.json("POST", f"{self._path(webhook_id)}/test")

    def deliveries(self, webhook_id: str) -> Iterator[Body]:
        """Newest first; `Client.retry` with a delivery's job sends it again."""
        return self._calls.all(f"{self._path(webhook_id)}/deliveries", {})

    def _path(self, webhook_id: str) -> str:
        return f"/v1/webhooks/{part(webhook_id)}"
