"""One bucket of S3: its client, and the only place where the name of an object is made.

A request speaks of one tenant's part of the bucket, and so does what is taken from its answer.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

from botocore.config import Config

from app.adapters.aws.client import aws_reachable, new_client
from app.adapters.s3.faults import refusal
from app.domain import ids
from app.domain.documents import parse_blob_key
from app.domain.errors import Unavailable
from app.domain.ids import TenantId

CONNECTIONS = 200
"""Each upload and each reader has one, for as long as its client takes."""

CONNECT_PATIENCE = 5
READ_PATIENCE = 30
"""Seconds for an answer, or for its next bytes. A part is sent within it: at 8 MiB, that takes 280 kB/s."""

TRIES = 3
PAGE = 1_000
"""Objects listed or deleted with one request; a limit of S3."""

S3Response = Mapping[str, Any]


class S3Bucket:
    def __init__(self, name: str, *, prefix: str, endpoint_url: str | None, region: str | None) -> None:
        """`prefix` is a folder, without slashes at its ends, or nothing."""
        self.name = name
        self._root = f"{prefix}/" if prefix else ""
        self._endpoint_url = endpoint_url
        self._region = region
        self._stack = AsyncExitStack()
        self._client: Any = None

    async def open(self) -> None:
        """Makes no request. Raises Unavailable where there can be no client."""
        config = Config(
            connect_timeout=CONNECT_PATIENCE,
            read_timeout=READ_PATIENCE,
            max_pool_connections=CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": TRIES},
            # Amazon wants the bucket in the host's name; look-alikes mostly have no such names.
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
        """Raises Invalid for a key that is not `tenant/name`."""
        tenant, name = parse_blob_key(key)
        return self.folder(tenant) + name

    async def call(self, operation: str, **arguments: object) -> S3Response:
        """Raises Unavailable."""
        with self.reachable():
            return await self.ask(operation, **arguments)

    async def tell(self, field: str, operation: str, **arguments: object) -> str:
        """That field of the answer, which every S3 gives: a proxy's page, sent with status 200, has none."""
        answer = await self.call(operation, **arguments)
        if not (value := answer.get(field)):
            raise Unavailable(f"the bucket {self.name}: the server at its endpoint is not S3")
        return str(value)

    async def ask(self, operation: str, **arguments: object) -> S3Response:
        """Do the same as `call`, but raise the client's own error for a caller that understands it."""
        answer: S3Response = await getattr(self._client, operation)(Bucket=self.name, **arguments)
        return answer

    async def ping(self) -> None:
        """The bucket is there, and these credentials are its. Raises Unavailable."""
        await self.tell("Name", "list_objects_v2", Prefix=self._root, MaxKeys=1)

    async def objects(self, tenant_id: TenantId, *, before: datetime | None = None) -> AsyncIterator[list[str]]:
        """Names of a tenant's objects, those last written before then, page by page."""
        async for page in self._pages("list_objects_v2", "Contents", tenant_id, MaxKeys=PAGE):
            yield [each["Key"] for each in page if before is None or each["LastModified"] < before]

    async def uploads(self, tenant_id: TenantId, *, before: datetime | None = None) -> AsyncIterator[tuple[str, str]]:
        """Names and ids of a tenant's unfinished uploads, those begun before then."""
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
            # What is listed is deleted next: a server that takes no notice of the prefix must not cost others theirs.
            if any(not each["Key"].startswith(folder) for each in found):
                raise Unavailable(f"the bucket {self.name}: asked for the objects of one tenant, it lists others'")
            yield found

    def reachable(self) -> aws_reachable:
        return aws_reachable(f"the bucket {self.name}", service="S3", endpoint_url=self._endpoint_url, refusal=refusal)
