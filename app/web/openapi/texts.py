"""Texts of the OpenAPI document: tags, errors, events of a stream, and links between operations."""

from typing import Any

TAGS = [
    {"name": "documents", "description": "Upload, find, read and remove documents."},
    {"name": "outputs", "description": "Download the original, page images, a searchable PDF, or the text."},
    {"name": "jobs", "description": "Request work on documents, wait for it, cancel it, retry it."},
    {"name": "events", "description": "Changes and progress of jobs, as server-sent events."},
    {"name": "webhooks", "description": "Signed events sent to a URL of yours."},
    {"name": "search", "description": "Search pages by their words."},
    {"name": "usage", "description": "The tenant's usage by day."},
    {"name": "me", "description": "The key's tenant, scopes and limits."},
    {"name": "operation", "description": "Health and metrics, for operators. They need no key."},
]

REFUSAL_TEXTS = {
    "unauthorized": "The key is missing or not valid.",
    "forbidden": "The key lacks the scope, or its tenant is suspended.",
    "not_found": "The resource does not exist or is another tenant's; the answer is the same.",
    "request_timeout": "The body came too slowly.",
    "conflict": "The state does not allow it now; `detail` says why.",
    "not_ready": "The text is not ready yet; wait for the document's `ocr` job.",
    "llm_not_configured": "No language model is configured.",
    "payload_too_large": "The body is larger than the limit, see `GET /v1/me`.",
    "unsupported_media_type": "The file's type, found from its bytes, is not supported.",
    "invalid": "The request is not valid; `errors` has a JSON pointer to each fault.",
    "idempotency_mismatch": "The key was sent with another request.",
    "too_many_requests": "A limit is reached; retry after `Retry-After`.",
    "unavailable": "The service can't answer just now; retry after `Retry-After`.",
}

EVENT: dict[str, Any] = {
    "type": "object",
    "description": "One event of a stream of server-sent events.",
    "properties": {
        "event": {"type": "string", "enum": ["state", "progress"]},
        "data": {"type": "string", "contentMediaType": "application/json", "description": "A job, or its progress."},
        "id": {"type": "string", "description": "The value of `Last-Event-ID` to continue from here."},
        "retry": {"type": "integer", "description": "Milliseconds before a disconnected client reconnects."},
    },
}

LINKS: dict[str, dict[str, Any]] = {
    "upload_document": {
        "get_document": {"document_id": "$response.body#/id"},
        "delete_document": {"document_id": "$response.body#/id"},
        "get_text": {"document_id": "$response.body#/id"},
        "list_pages": {"document_id": "$response.body#/id"},
        "request_job": {"document_id": "$response.body#/id"},
        "get_job": {"job_id": "$response.body#/jobs/0/id"},
    },
    "add_webhook": {
        "get_webhook": {"webhook_id": "$response.body#/id"},
        "rotate_webhook": {"webhook_id": "$response.body#/id"},
        "list_deliveries": {"webhook_id": "$response.body#/id"},
        "remove_webhook": {"webhook_id": "$response.body#/id"},
    },
    "request_job": {
        "get_job": {"job_id": "$response.body#/id"},
        "cancel_job": {"job_id": "$response.body#/id"},
        "retry_job": {"job_id": "$response.body#/id"},
    },
    "cancel_job": {"retry_job": {"job_id": "$response.body#/id"}},
}
"""Links by operation: the operations that its answer leads to, with their parameters taken from the answer."""
