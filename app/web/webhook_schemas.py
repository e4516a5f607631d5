"""Bodies of requests and answers about webhooks. A secret is only in the answer that makes it.

Requests are strict, and read only after the caller is known.
"""

from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from app.domain.errors import Invalid
from app.domain.jobs import Job, JobState
from app.domain.webhooks import OVERLAP, DeliveryRecord, Event, Webhook
from app.web.bodies import parse_json, whole
from app.web.errors import json_pointer, plain_message
from app.web.schemas import AttemptBody, ErrorBody


class WebhookBody(BaseModel):
    id: UUID
    url: str
    events: list[Event]
    description: str
    created_at: datetime
    previous_secret_until: datetime | None
    """The time until which the secret from before the latest rotation signs as well."""
    disabled_at: datetime | None
    disabled_reason: str | None

    @classmethod
    def of(cls, webhook: Webhook) -> "WebhookBody":
        return cls.model_validate(_fields(webhook))


class WebhookWithSecret(WebhookBody):
    secret: str

    @classmethod
    def shown(cls, webhook: Webhook) -> "WebhookWithSecret":
        return cls.model_validate(_fields(webhook) | {"secret": webhook.secret})


class WebhookList(BaseModel):
    data: list[WebhookBody]
    next_cursor: str | None


class DeliveryBody(BaseModel):
    id: UUID
    """The `webhook-id` of all its tries, which is the id of its job."""
    event: str
    job_id: UUID | None
    """The job that the event is about."""
    state: JobState
    attempts: int
    status: int | None
    """The HTTP status of the latest answer that counts."""
    error: ErrorBody | None
    next_attempt_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    history: list[AttemptBody]

    @classmethod
    def of(cls, delivery: DeliveryRecord) -> "DeliveryBody":
        job = delivery.job
        return cls(
            id=job.id,
            event=str(job.payload.get("event", "")),
            job_id=_announced(job),
            state=job.state,
            attempts=job.attempts,
            status=_status(delivery),
            error=None if job.error is None else ErrorBody(code=job.error.code, message=job.error.message),
            next_attempt_at=job.run_after if job.state is JobState.QUEUED else None,
            created_at=job.created_at,
            finished_at=job.finished_at,
            history=[AttemptBody.model_validate(attempt, from_attributes=True) for attempt in delivery.attempts],
        )


class DeliveryList(BaseModel):
    data: list[DeliveryBody]
    next_cursor: str | None


def _fields(webhook: Webhook) -> dict[str, object]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "events": sorted(webhook.events),
        "description": webhook.description,
        "created_at": webhook.created_at,
        "previous_secret_until": webhook.previous_until,
        "disabled_at": webhook.disabled_at,
        "disabled_reason": webhook.disabled_reason,
    }


def _status(delivery: DeliveryRecord) -> int | None:
    job = delivery.job
    if isinstance(job.result, dict) and job.state is JobState.DONE:
        status = job.result.get("status")
        return status if isinstance(status, int) else None
    code = job.error.code.removeprefix("status_") if job.error else ""
    return int(code) if code.isdecimal() else None


def _announced(job: Job) -> UUID | None:
    try:
        return UUID(str(job.payload.get("job_id")))
    except ValueError:
        return None


LONGEST_OVERLAP = 30 * 86_400
"""Seconds; 30 days."""


class WebhookRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: Annotated[StrictStr, Field(max_length=2_000, examples=["https://example.org/daira"])]
    events: Annotated[list[Event], Field(min_length=1, max_length=len(Event), description="Default: all.")] = list(
        Event
    )
    description: Annotated[StrictStr, Field(max_length=200)] = ""


class RotationRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    overlap_seconds: Annotated[
        StrictInt,
        Field(ge=0, le=LONGEST_OVERLAP, description="Seconds for which the former secret signs too."),
        BeforeValidator(whole),
    ] = int(OVERLAP.total_seconds())


REQUEST_EXAMPLES: dict[type[BaseModel], dict[str, object]] = {
    WebhookRequest: {"url": "https://example.org/daira", "events": ["job.done", "job.failed"]},
    RotationRequest: {"overlap_seconds": 3_600},
}

RequestT = TypeVar("RequestT", WebhookRequest, RotationRequest)


def request_body_of(model: type[BaseModel], *, required: bool) -> dict[str, Any]:
    """Return the request body of this model for the OpenAPI document."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    for part in schema["properties"].values():
        if "$ref" in part.get("items", {}):
            part["items"] = definitions[part["items"]["$ref"].rsplit("/", 1)[-1]]
    content = {"schema": schema, "example": REQUEST_EXAMPLES[model]}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


def parse_webhook_request(model: type[RequestT], text: str) -> RequestT:
    """Parse a body; an empty one counts as `{}`. Raises Invalid, with a JSON pointer into the body."""
    try:
        return model.model_validate(parse_json(text) if text.strip() else {})
    except ValidationError as error:
        fault = error.errors()[0]
        pointer = json_pointer(fault["loc"])
        raise Invalid(f"{pointer}: {plain_message(fault['msg'])}", pointer=pointer) from None
    except ValueError as error:
        raise Invalid(f"the body is not JSON: {error}", pointer="/") from None
