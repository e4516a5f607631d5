"""Clients of AWS, and the errors of its services, clients and networks as Unavailable.

Clients take credentials and certificates from the environment, as all AWS libraries do, but never accept every
certificate. No error holds a credential.
"""

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
    ProfileNotFound,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from app.domain.errors import Misconfigured, Unavailable

FORBIDDEN = frozenset({"AccessDenied", "AccessDeniedException", "AllAccessDisabled", "403"})
"""Error codes of a lack of rights. A HEAD request's answer has no body, so its status is the code."""

UNKNOWN_CREDENTIALS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "InvalidToken",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
THROTTLED = frozenset(
    {"RequestThrottled", "RequestLimitExceeded", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}
)
SKEWED = frozenset({"RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture"})
SIGNATURE = frozenset({"InvalidSignatureException", "SignatureDoesNotMatch"})
"""Error codes of a bad signature. Except for S3, they are also those of one that is minutes off."""
NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, TokenRetrievalError)
NO_CLIENT = (NoRegionError, ProfileNotFound, PartialCredentialsError)
"""Errors of the settings, found before anything is sent."""
OUT_OF_REACH = (BotoCoreError, ResponseParserError, aiohttp.ClientError, OSError, TimeoutError)

RefusalText = Callable[[ClientError], str | None]
"""Returns what to do about an error that only this service has; None for an error that any service may have."""


class aws_reachable:  # noqa: N801 - reads as a statement: with reachable(...)
    """Turns every failure to be served into Unavailable: Misconfigured where the settings make no client."""

    def __init__(self, what: str, *, service: str, endpoint_url: str | None, refusal: RefusalText) -> None:
        """`what` is the name in the error, such as `the queue daira-ocr`."""
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
        if isinstance(error, NO_CLIENT):
            raise Misconfigured(f"{self._what}: {self._absence(error)}") from error
        if isinstance(error, OUT_OF_REACH):
            raise Unavailable(f"{self._what}: {self._absence(error)}") from error

    def _common(self, error: ClientError) -> str:
        """The text for an error's code. The error's own text is not used, because it may quote the request."""
        code = code_of(error)
        if code in UNKNOWN_CREDENTIALS:
            return f"the AWS credentials are wrong or have expired ({code}){_or_the_clock(code)}"
        if code in THROTTLED:
            return f"{self._service} asks for fewer requests ({code})"
        if code in SKEWED:
            return "the clock of this machine is wrong, or the server's"
        return f"{error.operation_name.removesuffix('Batch')} was refused ({code})"

    def _absence(self, error: BaseException) -> str:
        if isinstance(error, NO_CREDENTIALS):
            return "there are no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a role"
        if isinstance(error, NoRegionError):
            return "there is no AWS region; set DAIRA_AWS_REGION"
        # Only the URL's host and port: the rest may hold a password.
        at = f"at {urlsplit(self._endpoint_url).netloc.rpartition('@')[2]} " if self._endpoint_url else ""
        return f"{self._service} {at}can't be reached ({type(error).__name__})"


def _or_the_clock(code: str) -> str:
    return ", or this machine's clock is minutes off" if code in SIGNATURE else ""


def code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def new_client(
    service: str, *, endpoint_url: str | None, region: str | None, config: Config
) -> AbstractAsyncContextManager[Any]:
    """Make a client, to be entered by the caller.

    Raises BotoCoreError where there can be none, such as without a region or with an unknown profile.
    """
    session = aioboto3.Session(region_name=region)
    # An empty AWS_CA_BUNDLE, such as an unset variable of a compose file, would switch botocore's verification off.
    verify = session._session.get_config_variable("ca_bundle") or True  # noqa: SLF001 - has no other name
    made: AbstractAsyncContextManager[Any] = session.client(
        service, endpoint_url=endpoint_url, config=config, verify=verify
    )
    return made
