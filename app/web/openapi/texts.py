"""What the OpenAPI document says in words of ours: tags, refusals, a stream's events, and where answers lead."""

from typing import Any

TAGS = [
    {"name": "documents", "description": "Upload, find, read and remove documents."},
    {"name": "outputs", "description": "Documents handed out: the original, images, searchable PDFs, text in formats."},
    {"name": "jobs", "description": "What is done to documents: ask for it, wait for it, cancel it."},
    {"name": "events", "description": "Jobs as they go on, as server-sent events."},
    {"name": "webhooks", "description": "Events sent to a URL of yours, signed."},
    {"name": "search", "description": "Pages by their words."},
    {"name": "usage", "description": "What was used, by day."},
    {"name": "me", "description": "What a key is for, and what it may use."},
    {"name": "operation", "description": "Health and metrics, for whoever runs the service. They need no key."},
]

SAID = {
    "unauthorized": "No key was sent, or one that is not valid.",
    "forbidden": "The key lacks the scope that this needs, or its tenant is suspended.",
    "not_found": "There is no such thing, or it is another tenant's: the two are never told apart.",
    "request_timeout": "The body came too slowly.",
    "conflict": "The state does not allow it now: `detail` says why.",
    "not_ready": "The text is not there yet: wait for the document's `ocr` job.",
    "llm_not_configured": "No language model is set up here.",
    "payload_too_large": "It is larger than the limit, which `GET /v1/me` tells.",
    "unsupported_media_type": "The file's bytes are of no type that is read here.",
    "invalid": "The request is not valid: `errors` has a JSON pointer to each fault.",
    "idempotency_mismatch": "The key was sent with another request.",
    "too_many_requests": "A limit is reached: `Retry-After` says when to come again.",
    "unavailable": "The service can't do it just now: try again.",
}

EVENT: dict[str, Any] = {
    "type": "object",
    "description": "One of a stream of server-sent events.",
    "properties": {
        "event": {"type": "string", "enum": ["state", "progress"]},
        "data": {"type": "string", "contentMediaType": "application/json", "description": "A job, or its progress."},
        "id": {"type": "string", "description": "For `Last-Event-ID`."},
        "retry": {"type": "integer", "description": "Milliseconds until a reader that was cut off should come again."},
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
"""By operation, where its answer leads: operations, and what of the answer to ask them with."""
