"""Who is told of ends, inside a transaction."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from app.domain.ids import JobId, WebhookId
from app.domain.jobs import Job
from app.domain.webhooks import Webhook


class Webhooks(Protocol):
    async def add(self, webhook: Webhook) -> None: ...

    async def get(self, webhook_id: WebhookId) -> Webhook | None: ...

    async def newest(self, *, limit: int, before: WebhookId | None = None) -> list[Webhook]:
        """Newest first."""
        ...

    async def remove(self, webhook_id: WebhookId) -> bool:
        """Delete; what is on its way to it ends by itself. False when there is no such webhook."""
        ...

    async def rotate(self, webhook_id: WebhookId, *, secret: str, overlap: timedelta) -> Webhook | None:
        """Sign with this secret from now on, and for the overlap with the former one too; None when there is none."""
        ...

    async def enable(self, webhook_id: WebhookId) -> Webhook | None:
        """None when there is none."""
        ...

    async def disable(
        self, webhook_id: WebhookId, *, reason: str, unless_healthy_since: datetime | None = None
    ) -> bool:
        """False when it is disabled already, or has been healthy since then."""
        ...

    async def note_health(self, webhook_id: WebhookId) -> None:
        """A delivery has succeeded, to within a minute."""
        ...

    async def deliveries(self, webhook_id: WebhookId, *, limit: int, before: JobId | None = None) -> Sequence[Job]:
        """Newest first; also of a webhook that is gone."""
        ...
