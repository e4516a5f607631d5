"""What SQS, its client and the network between refuse, as Unavailable: naming the queue, never a credential."""

from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from app.domain.errors import Unavailable

MISSING = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
"""The same error in the older and in the newer protocol of SQS."""

INVALID = frozenset({"InvalidParameterValue", "InvalidParameterValueException"})
"""Of a batch's entry, and from some local servers of the whole request."""

FORBIDDEN = frozenset({"AccessDenied", "AccessDeniedException"})
STRANGERS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
THROTTLED = frozenset({"RequestThrottled", "RequestLimitExceeded", "Throttling", "ThrottlingException"})
NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, TokenRetrievalError)
OUT_OF_REACH = (BotoCoreError, ResponseParserError, aiohttp.ClientError, OSError, TimeoutError)


def is_missing(error: ClientError) -> bool:
    return _code(error) in MISSING


def is_invalid(error: BaseException | None) -> bool:
    """What was sent is at fault, not the way or the right to send it."""
    return isinstance(error, ClientError) and _code(error) in INVALID


class reachable:  # noqa: N801 - reads as a statement: with reachable(...)
    """Turns every way of not being served into Unavailable."""

    def __init__(self, queue: str, *, endpoint_url: str | None) -> None:
        self._queue = queue
        self._endpoint_url = endpoint_url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if isinstance(error, ClientError):
            raise Unavailable(f"the queue {self._queue}: {_refusal(error)}") from error
        if isinstance(error, OUT_OF_REACH):
            raise Unavailable(f"the queue {self._queue}: {self._absence(error)}") from error

    def _absence(self, error: BaseException) -> str:
        if isinstance(error, NO_CREDENTIALS):
            return "there are no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a role"
        if isinstance(error, NoRegionError):
            return "there is no AWS region; name one"
        # Of the URL the host and port alone: the rest may hold a password.
        at = f"at {urlsplit(self._endpoint_url).netloc.rpartition('@')[2]} " if self._endpoint_url else ""
        return f"SQS {at}can't be reached ({type(error).__name__})"


def _refusal(error: ClientError) -> str:
    """By the error's code alone: its text may quote what was sent."""
    # Rights have the name of the single operation: there is no sqs:SendMessageBatch.
    code, operation = _code(error), error.operation_name.removesuffix("Batch")
    if code in MISSING:
        return "it does not exist; create it, or allow sqs:CreateQueue"
    if code in FORBIDDEN and operation == "CreateQueue":
        return "it does not exist, and these credentials may not create it; create it, or allow sqs:CreateQueue"
    if code in FORBIDDEN:
        return f"these credentials may not use it so; allow sqs:{operation} on it"
    if code in STRANGERS:
        return f"the AWS credentials are wrong or have expired ({code})"
    if code in THROTTLED:
        return f"SQS asks for fewer requests ({code})"
    return f"{operation} was refused ({code})"


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))
