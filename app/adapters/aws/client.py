"""Refusals of any AWS service, its client and the network, turned into Unavailable without a credential in the text."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aioboto3
import aiohttp
from botocore.config import Config
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

FORBIDDEN = frozenset({"AccessDenied", "AccessDeniedException", "AllAccessDisabled", "403"})
"""A HEAD has no body, and the status for a code."""

UNKNOWN_CREDENTIALS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidToken",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
THROTTLED = frozenset(
    {"RequestThrottled", "RequestLimitExceeded", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}
)
SKEWED = "RequestTimeTooSkewed"
NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, TokenRetrievalError)
OUT_OF_REACH = (BotoCoreError, ResponseParserError, aiohttp.ClientError, OSError, TimeoutError)

RefusalText = Callable[[ClientError], str | None]
"""Return advice about an error that only this service has; None for one that any service may have."""


class aws_reachable:  # noqa: N801 - reads as a statement: with reachable(...)
    """Turns every way of not being served into Unavailable."""

    def __init__(self, what: str, *, service: str, endpoint_url: str | None, refusal: RefusalText) -> None:
        """`what` is named in the error: `the queue daira-ocr`."""
        self._what = what
        self._service = service
        self._endpoint_url = endpoint_url
        self._refusal = refusal

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if isinstance(error, ClientError):
            raise Unavailable(f"{self._what}: {self._refusal(error) or self._common(error)}") from error
        if isinstance(error, OUT_OF_REACH):
            raise Unavailable(f"{self._what}: {self._absence(error)}") from error

    def _common(self, error: ClientError) -> str:
        """By the error's code alone: its text may quote what was sent."""
        code = code_of(error)
        if code in UNKNOWN_CREDENTIALS:
            return f"the AWS credentials are wrong or have expired ({code})"
        if code in THROTTLED:
            return f"{self._service} asks for fewer requests ({code})"
        if code == SKEWED:
            return "the clock of this machine is wrong, or the server's"
        return f"{error.operation_name.removesuffix('Batch')} was refused ({code})"

    def _absence(self, error: BaseException) -> str:
        if isinstance(error, NO_CREDENTIALS):
            return "there are no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a role"
        if isinstance(error, NoRegionError):
            return "there is no AWS region; name one"
        # Of the URL the host and port alone: the rest may hold a password.
        at = f"at {urlsplit(self._endpoint_url).netloc.rpartition('@')[2]} " if self._endpoint_url else ""
        return f"{self._service} {at}can't be reached ({type(error).__name__})"


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def new_client(
    service: str, *, endpoint_url: str | None, region: str | None, config: Config
) -> AbstractAsyncContextManager[Any]:
    """Not entered yet. Raises BotoCoreError where there can be none, for want of a region or of a profile named."""
    session = aioboto3.Session(region_name=region)
    # To botocore an empty AWS_CA_BUNDLE, as an unset variable of a compose file, means that nothing is to be verified.
    verify = session._session.get_config_variable("ca_bundle") or True  # noqa: SLF001 - has no other name
    made: AbstractAsyncContextManager[Any] = session.client(
        service, endpoint_url=endpoint_url, config=config, verify=verify
    )
    return made
