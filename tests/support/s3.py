"""S3 seen by tests: our adapter opened, the bucket without it, and the credentials."""

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

import aioboto3
import pytest
from botocore.config import Config
from botocore.loaders import create_loader

from app.adapters.s3.blobs import S3Blobs
from app.adapters.s3.bucket import S3Bucket

KEY_ID = "AKIDTEST"
SECRET = "made-up-secret"
REGION = "us-east-1"
PREFIX = "documents/of-a-test"


class Server(Protocol):
    @property
    def url(self) -> str: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


# Each session reads the whole description of S3 anew, which takes longer than most tests.
_loader = functools.cache(create_loader)


def set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.session.create_loader", _loader)
    set_credentials(monkeypatch)


def set_credentials(monkeypatch: pytest.MonkeyPatch, *, key_id: str = KEY_ID, secret: str = SECRET) -> None:
    """Made up, and no others to be found."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ["AWS_SESSION_TOKEN", "AWS_PROFILE"]:
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def opened(name: str, *, url: str, prefix: str = PREFIX, region: str | None = REGION) -> AsyncIterator[S3Blobs]:
    bucket = S3Bucket(name, prefix=prefix, endpoint_url=url, region=region)
    await bucket.open()
    try:
        yield S3Blobs(bucket)
    finally:
        await bucket.close()


@dataclass(frozen=True, kw_only=True)
class Raw:
    """A bucket of a test's own, without our adapter."""

    client: Any
    name: str = field(default_factory=lambda: f"daira-{uuid4().hex[:12]}")

    async def __call__(self, operation: str, **arguments: object) -> dict[str, Any]:
        answer: dict[str, Any] = await getattr(self.client, operation)(Bucket=self.name, **arguments)
        return answer

    async def objects(self) -> list[str]:
        return sorted(each["Key"] for each in (await self("list_objects_v2")).get("Contents", []))

    async def uploads(self) -> list[str]:
        """Unfinished ones."""
        return sorted(each["Key"] for each in (await self("list_multipart_uploads")).get("Uploads", []))


@asynccontextmanager
async def raw_client(url: str) -> AsyncIterator[Any]:
    session = aioboto3.Session(aws_access_key_id=KEY_ID, aws_secret_access_key=SECRET, region_name=REGION)
    config = Config(s3={"addressing_style": "path"})
    async with session.client("s3", endpoint_url=url, config=config) as client:
        yield client


@asynccontextmanager
async def bucket_on(url: str) -> AsyncIterator[Raw]:
    async with raw_client(url) as client:
        raw = Raw(client=client)
        await raw("create_bucket")
        yield raw
