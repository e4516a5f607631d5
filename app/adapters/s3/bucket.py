"""One bucket of S3: its client, and the only place that makes the names of objects.

Each request names one tenant's part of the bucket, and answers that list anything else are refused.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from botocore.config import Config

from app.adapters.aws.client import aws_reachable, new_client
from app.adapters.s3.faults import refusal
from app.domain import ids
from app.domain.documents import parse_blob_key
from app.domain.errors import Unavailable
from app.domain.ids import TenantId

CONNECTIONS = 200
"""Each upload and each reader holds one, for as long as its client takes."""

CONNECT_PATIENCE = 5
READ_PATIENCE = 30
"""Seconds for an answer or its next bytes. A part must be sent within this time: at 8 MiB, that takes 280 kB/s."""

TRIES = 3
PAGE = 1_000
"""Objects listed or deleted by one request; a limit of S3."""

S3Response = Mapping[str, Any]


class S3Bucket:
    def __init__(self, name: str, *, prefix: str, endpoint_url: str | None, region: str | None) -> None:
        """`prefix` is a folder without slashes at its ends, or empty."""
        self.name = name
        self._root = f"{prefix}/" if prefix else ""
        self._endpoint_url = endpoint_url
        self._region = region
        self._stack = AsyncExitStack()
        self._client: Any = None

    async def open(self) -> None:
        """Make the client, without a request. Raises Unavailable where there can be none."""
        config = Config(
            connect_timeout=CONNECT_PATIENCE,
            read_timeout=READ_PATIENCE,
            max_pool_connections=CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": TRIES},
            # Amazon wants the bucket in the host's name; most compatible servers have no such names.
            s3={"addressing_style": "path" if self._endpoint_url else "auto"},
        )
        with self.reachable():
            made = new_client("s3", endpoint_url=self._endpoint_url, region=self._region, config=config)
            self._client = await self._stack.enter_async_context(made)

    async def close(self) -> None:
        await self._stack.aclose()

    def folder(self, tenant_id: TenantId) -> str:
        """The prefix of all names of this tenant's objects. Raises Invalid for a malformed tenant."""
        return f"{self._root}{ids.tenant_id(tenant_id)}/"

    def name_of(self, key: str) -> str:
        """The object's name for a blob's key. Raises Invalid for a key that is not `tenant/name`."""
        tenant, name = parse_blob_key(key)
        return self.folder(tenant) + name

    async def call(self, operation: str, **arguments: object) -> S3Response:
        """Send a request to the bucket. Raises Unavailable."""
        with self.reachable():
            return await self.ask(operation, **arguments)

    async def tell(self, field: str, operation: str, **arguments: object) -> str:
        """Send a request and return one field of the answer. Raises Unavailable without it.

        Every S3 sends these fields. A proxy's page, sent with status 200, does not.
        """
        answer = await self.call(operation, **arguments)
        if not (value := answer.get(field)):
            raise Unavailable(f"the bucket {self.name}: the server at its endpoint is not S3")
        return str(value)

    async def ask(self, operation: str, **arguments: object) -> S3Response:
        """Send a request like `call`, but raise the client's own errors, for callers that interpret them."""
        answer: S3Response = await getattr(self._client, operation)(Bucket=self.name, **arguments)
        return answer

    async def ping(self) -> None:
        """Check that the bucket exists and the credentials may list it. Raises Unavailable."""
        await self.tell("Name", "list_objects_v2", Prefix=self._root, MaxKeys=1)

    async def now(self) -> datetime:
        """The time in the head of an answer. An object's own would take a right to store, which workers don't have."""
        answer = await self.call("list_objects_v2", Prefix=self._root, MaxKeys=1)
        try:
            return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).astimezone(UTC)
        except (KeyError, ValueError):
            raise Unavailable(f"the bucket {self.name}: its server does not say what time it is") from None

    async def objects(self, tenant_id: TenantId, *, before: datetime | None = None) -> AsyncIterator[list[str]]:
        """The names of a tenant's objects, last written before then if given, page by page."""
        async for page in self._pages("list_objects_v2", "Contents", tenant_id, MaxKeys=PAGE):
            yield [each["Key"] for each in page if before is None or each["LastModified"] < before]

    async def uploads(self, tenant_id: TenantId, *, before: datetime | None = None) -> AsyncIterator[tuple[str, str]]:
        """The names and ids of a tenant's unfinished uploads, begun before then if given."""
        async for page in self._pages("list_multipart_uploads", "Uploads", tenant_id):
            for each in page:
                if before is None or each["Initiated"] < before:
                    yield each["Key"], each["UploadId"]

    async def _pages(
        self, operation: str, part: str, tenant_id: TenantId, **arguments: object
    ) -> AsyncIterator[list[S3Response]]:
        folder = self.folder(tenant_id)
        pages = self._client.get_paginator(operation).paginate(Bucket=self.name, Prefix=folder, **arguments)
        answers = aiter(pages)
        while True:
            with self.reachable():
                answer = await anext(answers, None)
            if answer is None:
                return
            found = answer.get(part, [])
            # Listed objects are deleted next: a server that ignores the prefix must not cost other tenants their
            # objects.
            if any(not each["Key"].startswith(folder) for each in found):
                raise Unavailable(f"the bucket {self.name}: it lists objects of other tenants than the one requested")
            yield found

    def reachable(self) -> aws_reachable:
        return aws_reachable(f"the bucket {self.name}", service="S3", endpoint_url=self._endpoint_url, refusal=refusal)
