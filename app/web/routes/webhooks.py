"""Routes of webhooks: URLs that a tenant's events are sent to, and the deliveries."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.domain.errors import Conflict, Invalid
from app.web import pagination
from app.web.bodies import SMALL_BODY, read_text
from app.web.callers import Reader, WebhookWriter
from app.web.dependencies import AWebhookId, TheWebhooks
from app.web.pagination import TheListing
from app.web.refusals import refuses
from app.web.schemas import JobBody
from app.web.webhook_schemas import (
    DeliveryBody,
    DeliveryList,
    RotationRequest,
    WebhookBody,
    WebhookList,
    WebhookRequest,
    WebhookWithSecret,
    parse_webhook_request,
    request_body_of,
)

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])

Limit = Annotated[int, Query(ge=1, le=100)]


@router.post("", status_code=201, openapi_extra=request_body_of(WebhookRequest, required=True))
@refuses(Conflict)
async def add_webhook(
    tenant_id: WebhookWriter, request: Request, webhooks: TheWebhooks, response: Response
) -> WebhookWithSecret:
    """Add a URL that events are sent to, signed as Standard Webhooks says. The secret is shown only this once."""
    # Read here, because the framework would read the whole body before it checks the key.
    wanted = parse_webhook_request(WebhookRequest, await read_text(request.stream(), limit=SMALL_BODY))
    webhook = await webhooks.add(tenant_id, url=wanted.url, events=wanted.events, description=wanted.description)
    response.headers["Location"] = f"/v1/webhooks/{webhook.id}"
    return WebhookWithSecret.shown(webhook)


@router.get("")
async def list_webhooks(
    tenant_id: Reader, webhooks: TheWebhooks, listing: TheListing, limit: Limit = 20
) -> WebhookList:
    """List webhooks, newest first."""
    found = await webhooks.newest(tenant_id, limit=limit + 1, before=pagination.webhook_place(listing.cursor))
    more, found = len(found) > limit, found[:limit]
    following = pagination.pack_webhook_place(found[-1].id) if more else None
    return WebhookList(data=[WebhookBody.of(webhook) for webhook in found], next_cursor=listing.next(following))


@router.get("/{webhook_id}")
async def get_webhook(tenant_id: Reader, webhook_id: AWebhookId, webhooks: TheWebhooks) -> WebhookBody:
    """Return the webhook, without its secret."""
    return WebhookBody.of(await webhooks.get(tenant_id, webhook_id))


@router.delete("/{webhook_id}", status_code=204, response_description="The webhook is removed.")
async def remove_webhook(tenant_id: WebhookWriter, webhook_id: AWebhookId, webhooks: TheWebhooks) -> None:
    """Remove the webhook. Events not sent yet are dropped."""
    await webhooks.remove(tenant_id, webhook_id)


@router.post("/{webhook_id}/rotate", openapi_extra=request_body_of(RotationRequest, required=False))
async def rotate_webhook(
    tenant_id: WebhookWriter, webhook_id: AWebhookId, request: Request, webhooks: TheWebhooks
) -> WebhookWithSecret:
    """Sign with a new secret, shown only this once. During the overlap the former one signs as well."""
    wanted = parse_webhook_request(RotationRequest, await read_text(request.stream(), limit=SMALL_BODY))
    overlap = timedelta(seconds=wanted.overlap_seconds)
    return WebhookWithSecret.shown(await webhooks.rotate(tenant_id, webhook_id, overlap=overlap))


@router.post("/{webhook_id}/enable")
@refuses(Invalid)
async def enable_webhook(tenant_id: WebhookWriter, webhook_id: AWebhookId, webhooks: TheWebhooks) -> WebhookBody:
    """Enable the webhook again after an answer of 410 or lasting failures have disabled it."""
    return WebhookBody.of(await webhooks.enable(tenant_id, webhook_id))


@router.post("/{webhook_id}/test", status_code=202)
@refuses(Conflict)
async def test_webhook(
    tenant_id: WebhookWriter, webhook_id: AWebhookId, webhooks: TheWebhooks, response: Response
) -> JobBody:
    """Send a `webhook.test` event. The answer is its delivery, a job."""
    job = await webhooks.test(tenant_id, webhook_id)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return JobBody.of(job)


@router.get("/{webhook_id}/deliveries")
async def list_deliveries(
    tenant_id: Reader,
    webhook_id: AWebhookId,
    webhooks: TheWebhooks,
    listing: TheListing,
    limit: Limit = 20,
) -> DeliveryList:
    """List deliveries with their attempts, newest first. `POST /v1/jobs/{id}/retry` sends one again."""
    found = await webhooks.deliveries(
        tenant_id, webhook_id, limit=limit + 1, before=pagination.job_place(listing.cursor)
    )
    more, found = len(found) > limit, found[:limit]
    following = pagination.pack_job_place(found[-1].job.id) if more else None
    return DeliveryList(data=[DeliveryBody.of(delivery) for delivery in found], next_cursor=listing.next(following))
