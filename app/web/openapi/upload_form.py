"""The form of an upload, for the OpenAPI document: FastAPI does not see it, because `MultipartForm` reads a stream."""

from typing import Any

from app.web.job_requests import A_REQUEST, LANGUAGES, MOST_JOBS

UPLOAD_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "examples": {
                    "read it": {"value": {"file": "(the bytes)"}},
                    "read it, and sum it up": {
                        "value": {
                            "file": "(the bytes)",
                            "jobs": '[{"kind": "ocr"}, {"kind": "summarize", "max_words": 150}]',
                            "metadata": '{"order": 815}',
                            "language": "eng",
                        }
                    },
                },
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "additionalProperties": False,
                    "properties": {
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "The document's bytes. Its type is found from them.",
                        },
                        "jobs": {
                            "type": "string",
                            # Not as `default`, because some generators change its quotes.
                            "description": 'JSON array of job requests, as text. Default: `[{"kind": "ocr"}]`.',
                            "contentMediaType": "application/json",
                            "contentSchema": {"type": "array", "items": A_REQUEST, "maxItems": MOST_JOBS},
                        },
                        "metadata": {
                            "type": "string",
                            "description": "JSON object, as text of up to 16 KiB; stored with the document.",
                            "default": "{}",
                            "contentMediaType": "application/json",
                            "contentSchema": {"type": "object"},
                        },
                        "language": {
                            "type": "string",
                            "description": "ISO 639-2 code of an installed language, or several joined by `+`.",
                            "default": "eng",
                            "pattern": LANGUAGES,
                        },
                    },
                },
            }
        },
    }
}
