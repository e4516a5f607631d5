"""What may be asked of webhooks, strict, read after it is known who asks."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from app.domain.errors import Invalid
from app.domain.webhooks import OVERLAP, Event
from app.web.errors import json_pointer, said
from app.web.strict_json import parse_json, whole

LONGEST_OVERLAP = 30 * 86_400
"""Seconds."""


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
        Field(ge=0, le=LONGEST_OVERLAP, description="The former secret signs too, for so long."),
        BeforeValidator(whole),
    ] = int(OVERLAP.total_seconds())


EXAMPLES: dict[type[BaseModel], dict[str, object]] = {
    WebhookRequest: {"url": "https://example.org/daira", "events": ["job.done", "job.failed"]},
    RotationRequest: {"overlap_seconds": 3_600},
}

Asked = TypeVar("Asked", WebhookRequest, RotationRequest)


def body_of(model: type[BaseModel], *, required: bool) -> dict[str, Any]:
    """For the OpenAPI document."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    for part in schema["properties"].values():
        if "$ref" in part.get("items", {}):
            part["items"] = definitions[part["items"]["$ref"].rsplit("/", 1)[-1]]
    content = {"schema": schema, "example": EXAMPLES[model]}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


def parse(model: type[Asked], text: str) -> Asked:
    """An empty body is an empty object. Raises Invalid, with a JSON pointer into the body."""
    try:
        return model.model_validate(parse_json(text) if text.strip() else {})
    except ValidationError as error:
        fault = error.errors()[0]
        pointer = json_pointer(fault["loc"])
        raise Invalid(f"{pointer}: {said(fault['msg'])}", pointer=pointer) from None
    except ValueError as error:
        raise Invalid(f"the body is not JSON: {error}", pointer="/") from None
