"""What the OpenAPI document can't say, for requests that Schemathesis means to be good; others are sent as they are.

Loaded by its command line (SCHEMATHESIS_HOOKS). Each step says which rule no schema expresses.
"""

import json
from datetime import UTC, datetime
from itertools import count
from typing import Any

import httpx
import schemathesis

from tests.support.sample_documents import Sheet, pdf

AnyCase = schemathesis.Case[Any]

_numbers = count()

JOBS: tuple[list[dict[str, object]], ...] = (
    [{"kind": "ocr"}],
    [{"kind": "ocr", "mode": "force", "language": "eng", "pages": "1"}],
    [{"kind": "ocr"}, {"kind": "summarize", "max_words": 50}],
    [],
)
A_SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}}


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: AnyCase, _kwargs: dict[str, Any]) -> None:
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    number = next(_numbers)
    _fresh_key(case, number)
    _genuine_cursor(case)
    if case.query and "q" in case.query:
        case.query["q"] = "dear"  # it must have a word
    match case.operation.definition.raw.get("operationId"):
        case "upload_document":
            case.body = _form(case.body, number)
        case "request_job":
            _possible(case.body)
        case "get_job":
            _impatient(case)
        case "get_usage":
            _within_a_year(case)
        case "add_webhook":
            case.body = _sendable(case.body)
        case _:
            pass


def _fresh_key(case: AnyCase, number: int) -> None:
    """A key is for one request: with another it is refused, as it should be."""
    if case.headers and case.headers.get("Idempotency-Key"):
        case.headers["Idempotency-Key"] = f"{case.headers['Idempotency-Key'][:200]}-{number}"


def _genuine_cursor(case: AnyCase) -> None:
    """A cursor is one that the same listing gave."""
    if case.query and case.query.pop("cursor", None) is not None:
        query = {**case.query, "limit": 1}
        headers = dict(case.headers or {}) | dict(case.operation.schema.config.headers or {})
        answer = httpx.get(f"{case.operation.base_url}{case.formatted_path}", params=query, headers=headers)
        if answer.is_success and answer.json()["next_cursor"]:
            case.query["cursor"] = answer.json()["next_cursor"]


def _impatient(case: AnyCase) -> None:
    """It may well wait for a minute; the test has none to spare."""
    if case.query and "wait" in case.query:
        case.query["wait"] = min(float(case.query["wait"]), 0.5)


def _within_a_year(case: AnyCase) -> None:
    """More days than 366 are not told at once, nor some that end before they begin."""
    if case.query and "from" in case.query:
        case.query["from"] = case.query.get("to", datetime.now(UTC).date().isoformat())


def _sendable(body: Any) -> Any:
    """The URL must be one that things may be sent to."""
    return body | {"url": "http://127.0.0.1:9/"} if isinstance(body, dict) else body


def _form(body: Any, number: int) -> Any:
    """The file's bytes must be some that are read here, and new; what stands in the fields is JSON."""
    if not isinstance(body, dict):
        return body
    texts = {
        "jobs": json.dumps(JOBS[number % len(JOBS)]),
        "metadata": json.dumps({"number": number}),
        "language": "eng",
    }
    # As text: of a body with bytes Schemathesis can't tell whether it fits the schema.
    file = pdf(Sheet(lines=(f"Dear Sir {number}",))).decode("ascii")
    return {name: texts.get(name, value) for name, value in body.items()} | {"file": file}


def _possible(body: Any) -> None:
    """A language must be installed, a schema be one, pages begin at 1; labels differ in more than case and blanks."""
    if not isinstance(body, dict):
        return
    if body.get("kind") == "ocr":
        body |= {name: value for name, value in (("language", "eng"), ("pages", "1")) if body.get(name) is not None}
    if "schema" in body:
        body["schema"] = A_SCHEMA
    if "labels" in body:
        body["labels"] = [f"{number} {label}"[:100].strip() for number, label in enumerate(body["labels"])]
