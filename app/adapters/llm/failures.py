"""The meaning of a server's refusal for the caller.

The server's words are searched but never passed on, because they may quote the document.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

from typing_extensions import override

from app.adapters.llm.retry_after import retry_after_of
from app.ports.llm import LlmContextExceeded, LlmRefused, LlmRejected

OURS = ("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "stream_options", "response_format")
"""Names that we send, which may therefore be repeated in messages."""

TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|maximum context|context_exceeded|num_ctx|n_ctx|string_above_max_length"
    r"|(?:prompt|input|request) (?:is )?too (?:long|large)|reduce the length|too many (?:input )?tokens"
)
"""Words of many servers for a question that is too long. They include a question above a minute's whole token quota,
because waiting does not help it."""

FILTERED = re.compile(r"content_filter|content management policy|responsibleaipolicy|content_policy_violation")
UNPAID = re.compile(r"insufficient_quota|billing|insufficient balance")
FORMS = re.compile(r"response_format|json_schema|json_object|json schema|schema|grammar|structured|guided")
OF_THE_SCHEMA = re.compile(
    r"invalid[ _](?:json[ _])?schema|schema (?:contains|conversion|is)|grammar|unsupported schema"
)
"""Words for a schema that the server can't handle, though it may handle others."""


class EndpointThrottled(Exception):
    """The server asks to wait. `hint` is the wait it asked for, or None."""

    def __init__(self, message: str, *, hint: timedelta | None) -> None:
        super().__init__(message)
        self.hint = hint


class AccountFault(Exception):
    """The server refuses the operator's key, model, address or account. No question would be answered.

    The message is for the operator.
    """


class ConnectFault(Exception):
    """The question did not reach the model."""


class ResponseFault(Exception):
    """The server received the question, and then failed or stopped answering."""


@dataclass(slots=True, repr=False)
class StatusFault(Exception):
    """An answer with another status than 200, or an error in the middle of a stream."""

    status: int
    words: str
    """Message, code, type and parameter, in lower case; not to be shown."""
    wait: timedelta | None = None

    @override
    def __str__(self) -> str:
        return f"status {self.status}"


def error_response(status: int, headers: Mapping[str, str], body: bytes) -> StatusFault:
    text = body.decode(errors="replace")
    try:
        words = _words(json.loads(text))
    except (ValueError, RecursionError):
        words = text
    return StatusFault(status, words.lower(), retry_after_of(headers, text))


def error_in_stream(error: object) -> StatusFault:
    """The refusal in an event, with which some servers report an error after status 200."""
    code = error.get("code", error.get("status")) if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) and 400 <= code <= 599 else 500  # noqa: PLR2004 - the span of HTTP's errors
    return StatusFault(status, _words({"error": error}).lower(), retry_after_of({}, json.dumps(error)))


def _words(body: object) -> str:
    """The server's description of the error, without what it quotes: validators repeat the whole input."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return str(error)
    words = [str(error.get(name) or "") for name in ("message", "code", "type", "param", "n_ctx")]
    details = error.get("detail") or error.get("details")
    for each in details if isinstance(details, list) else [details]:
        words += [str(each.get("loc")), str(each.get("msg"))] if isinstance(each, Mapping) else [str(each or "")]
    if isinstance(error.get("message"), Mapping):
        words.append(_words(error["message"]))
    return " ".join(words)


def raise_fault(refusal: StatusFault) -> NoReturn:
    """Raise the error that the refusal means."""
    status = refusal.status
    if TOO_LONG.search(refusal.words) or status == _TOO_LARGE:
        raise LlmContextExceeded(f"the question is too long for the language model ({refusal})")
    if FILTERED.search(refusal.words):
        raise LlmRefused(f"the language model's content filter refuses the question ({refusal})")
    if status == _UNPAID or (status == _TOO_MANY and UNPAID.search(refusal.words)):
        raise AccountFault(f"the account at the language model has no credit left ({refusal}): top it up")
    if status == _TOO_MANY or (status in _AWAY and refusal.wait is not None):
        raise EndpointThrottled(f"the language model asks to wait ({refusal})", hint=refusal.wait)
    if status in _AWAY:
        raise ConnectFault(f"the language model is unavailable ({refusal})")
    if status in _PASSING or status >= _SERVERS:
        raise ResponseFault(f"the language model failed ({refusal})")
    text = f"the language model rejects the request ({refusal}): {_advice(refusal)}"
    raise AccountFault(text) if status < _CLIENTS or status in _ACCOUNT else LlmRejected(text)


def _advice(refusal: StatusFault) -> str:
    if refusal.status in _KEY:
        return "check DAIRA_LLM_API_KEY"
    if refusal.status == _MISSING:
        return "check DAIRA_LLM_MODEL, and the path of DAIRA_LLM_BASE_URL, to which /chat/completions is added"
    if refusal.status < _CLIENTS:
        return "it redirects elsewhere; set DAIRA_LLM_BASE_URL to the final address"
    named = [name for name in OURS if re.search(rf"\b{name}\b", refusal.words)]
    which = f"it names {', '.join(named)}; " if named else ""
    return f"{which}check DAIRA_LLM_MODEL and DAIRA_LLM_BASE_URL; the server's log says more"


_CLIENTS, _SERVERS = 400, 500
_KEY = {401, 403, 407}
_UNPAID, _MISSING, _TOO_LARGE, _TOO_MANY = 402, 404, 413, 429
_ACCOUNT = _KEY | {404, 405, 410, 421, 426, 451}
"""Statuses that are about who asks, whom and where, and not about a question."""
_PASSING = {408, 409, 425}
_AWAY = {502, 503, 529}
"""A gateway without a server behind it, a model that is being loaded, an overloaded service."""
