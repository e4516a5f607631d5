"""Clients of AWS as all of its libraries make them, from the environment; but none that trusts any certificate."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import aioboto3
from botocore.config import Config


def client(
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
