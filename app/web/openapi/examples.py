"""Examples of answers for the OpenAPI document; a test checks each against its schema."""

from typing import Any

from app.web.errors import STATUS, TITLES

DOCUMENT_ID = "0199c0de-5f00-7a10-8b20-0242ac120002"
JOB_ID = "0199c0de-5f01-7c30-9d40-0242ac120002"
REQUEST_ID = "4bf92f3577b34da6a3ce929d0e0e4736"

JOB: dict[str, Any] = {
    "id": JOB_ID,
    "document_id": DOCUMENT_ID,
    "kind": "ocr",
    "state": "done",
    "attempts": 1,
    "failures": 0,
    "expiries": 0,
    "releases": 0,
    "max_attempts": 5,
    "progress": {"done": 1, "total": 1, "unit": "page"},
    "result": None,
    "error": None,
    "created_at": "2026-11-30T09:00:00Z",
    "run_after": "2026-11-30T09:00:00Z",
    "started_at": "2026-11-30T09:00:00.100000Z",
    "finished_at": "2026-11-30T09:00:01.300000Z",
}

PAGE: dict[str, Any] = {
    "number": 1,
    "text": "The quick brown fox jumps over the lazy dog",
    "source": "ocr",
    "confidence": 0.96,
    "width": 612.0,
    "height": 792.0,
    "rotation": 0,
    "language": "eng",
    "warnings": [],
}

WORD: dict[str, Any] = {
    "text": "fox",
    "box": [158.4, 71.2, 181.0, 84.9],
    "confidence": 0.97,
    "source": "ocr",
    "line": 0,
    "block": 0,
}

DOCUMENT: dict[str, Any] = {
    "id": DOCUMENT_ID,
    "filename": "letter.pdf",
    "media_type": "application/pdf",
    "size": 48213,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "page_count": 1,
    "language": "eng",
    "metadata": {"order": 815},
    "status": "ready",
    "warnings": [],
    "deduplicated": False,
    "created_at": "2026-11-30T09:00:00Z",
    "jobs": [JOB],
    "more_jobs": False,
}

SCHEMA_EXAMPLES: dict[str, Any] = {
    "JobBody": JOB,
    "JobWithHistory": JOB
    | {
        "history": [
            {
                "attempt": 1,
                "outcome": "done",
                "error": None,
                "started_at": "2026-11-30T09:00:00.100000Z",
                "finished_at": "2026-11-30T09:00:01.300000Z",
            }
        ]
    },
    "JobList": {"data": [JOB], "next_cursor": None},
    "DocumentBody": DOCUMENT,
    "DocumentList": {"data": [DOCUMENT], "next_cursor": None},
    "PageBody": PAGE,
    "PageWithWords": PAGE | {"words": [WORD]},
    "PageList": {"data": [PAGE]},
    "MeBody": {
        "tenant": "acme",
        "key": "scanner",
        "scopes": ["documents:read", "documents:write", "jobs:write"],
        "limits": {
            "max_running": None,
            "max_queued": 10_000,
            "max_upload_bytes": 104_857_600,
            "requests_per_minute": 100_000,
        },
    },
}


def problem(code: str) -> dict[str, Any]:
    status = next((status for kind, status in STATUS.items() if kind.code == code), 408)
    example: dict[str, Any] = {
        "type": "about:blank",
        "title": TITLES[code],
        "status": status,
        "detail": "what is wrong, and what to do about it",
        "code": code,
        "request_id": REQUEST_ID,
    }
    if code == "invalid":
        example["errors"] = [{"pointer": "/limit", "detail": "Input should be less than or equal to 100"}]
    return example
