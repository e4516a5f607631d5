"""The blobs in S3 keep the contract, on two real servers that share no line, and leave nothing lying about."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from app.adapters.s3 import bucket as buckets
from app.adapters.s3.blobs import S3Blobs
from app.domain.errors import Invalid, NotFound, Unavailable
from app.ports.blobs import CHUNK
from tests.conformance.blobs_suite import (
    ACME,
    EVER,
    HOSTILE,
    KEY,
    BlobsSuite,
    an_hour_ago,
    chunks,
    content,
    digest,
    keys,
    large,
)
from tests.support.ministack import Ministack
from tests.support.s3 import KEY_ID, PREFIX, SECRET, Raw, Server, bucket_on, opened, set_credentials, set_up
from tests.support.seaweedfs import SeaweedFS


@pytest.fixture(autouse=True)
def _set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch)


class S3Suite(BlobsSuite):
    @pytest.fixture
    async def raw(self, server: Server) -> AsyncIterator[Raw]:
        async with bucket_on(server.url) as raw:
            yield raw

    @pytest.fixture
    async def blobs(self, server: Server, raw: Raw) -> AsyncIterator[S3Blobs]:
        async with opened(raw.name, url=server.url) as blobs:
            yield blobs

    async def test_a_blob_is_one_object_under_the_prefix_and_its_tenant(self, blobs: S3Blobs, raw: Raw) -> None:
        await blobs.put(KEY, chunks(b"Dear Sir"))
        assert await raw.objects() == [f"{PREFIX}/{KEY}"]

    async def test_without_a_prefix_tenants_are_at_the_top(self, server: Server, raw: Raw) -> None:
        async with opened(raw.name, url=server.url, prefix="") as blobs:
            await blobs.put(KEY, large())
            assert await raw.objects() == [KEY]
            assert await keys(blobs) == [KEY]
            await blobs.delete_all(ACME)
        assert await raw.objects() == []

    async def test_other_prefixes_of_the_bucket_are_not_touched(self, server: Server, blobs: S3Blobs, raw: Raw) -> None:
        async with opened(raw.name, url=server.url, prefix=f"{PREFIX}-2") as others:
            await others.put(KEY, chunks(b"of the others"))
            await blobs.put(KEY, chunks(b"Dear Sir"))
            await blobs.delete_all(ACME)
            assert await content(others) == b"of the others"
        assert await raw.objects() == [f"{PREFIX}-2/{KEY}"]

    @pytest.mark.threat(59)
    async def test_a_hostile_key_reaches_no_bucket(self, blobs: S3Blobs, raw: Raw) -> None:
        for key in HOSTILE:
            with pytest.raises(Invalid):
                await blobs.put(key, chunks(b"Dear Sir"))
        assert await raw.objects() == []

    async def test_an_upload_cancelled_anywhere_leaves_the_whole_object_or_nothing(
        self, blobs: S3Blobs, raw: Raw
    ) -> None:
        whole = 0
        for wait in [0.0005 * 1.4**n for n in range(20)]:
            upload = asyncio.create_task(blobs.put(KEY, large()))
            await asyncio.wait({upload}, timeout=wait)
            for _ in range(3):
                upload.cancel()
                await asyncio.sleep(0)
            await asyncio.gather(upload, return_exceptions=True)
            assert await raw.uploads() == []
            if await raw.objects():
                whole += 1
                assert await digest(blobs.get(KEY)) == await digest(large())
                await blobs.delete(KEY)
        assert whole < 20

    async def test_a_reader_that_stops_in_the_middle_closes_its_connection(self, blobs: S3Blobs) -> None:
        await blobs.put(KEY, large())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResourceWarning)
            for _ in range(5):
                reader = blobs.get(KEY)
                await anext(reader)
                await reader.aclose()  # type: ignore[attr-defined]
                del reader
            gc.collect()
        assert [str(each.message) for each in caught] == []
        assert await digest(blobs.get(KEY)) == await digest(large())

    async def test_more_readers_than_connections_are_served(
        self, server: Server, raw: Raw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(buckets, "CONNECTIONS", 2)
        async with opened(raw.name, url=server.url) as blobs:
            await blobs.put(KEY, large(CHUNK))
            async with asyncio.timeout(30):
                digests = await asyncio.gather(*(digest(blobs.get(KEY)) for _ in range(12)))
        assert set(digests) == {await digest(large(CHUNK))}

    async def test_all_is_deleted_and_listed_page_by_page(
        self, blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(buckets, "PAGE", 10)
        for n in range(35):
            await blobs.put(f"acme/{n:02}", chunks(b"Dear Sir"))
        assert await keys(blobs) == [f"acme/{n:02}" for n in range(35)]
        await blobs.delete_all(ACME)
        assert await keys(blobs) == []

    async def test_what_is_no_blob_is_not_listed_and_goes_with_its_tenant(self, blobs: S3Blobs, raw: Raw) -> None:
        for name in ("acme/sub/folder", "acme/Name.pdf", "acme/", "acme/é & ü", "acme-2/Name.pdf"):
            await raw("put_object", Key=f"{PREFIX}/{name}", Body=b"Dear Sir")
        await blobs.put(KEY, chunks(b"Dear Sir"))
        assert await keys(blobs) == [KEY]
        await blobs.delete_all(ACME)
        assert await raw.objects() == [f"{PREFIX}/acme-2/Name.pdf"]

    async def test_unfinished_uploads_of_all_kinds_go_with_their_tenant(self, blobs: S3Blobs, raw: Raw) -> None:
        for name in ("acme/one", "acme/two", "acme-2/one"):
            await raw("create_multipart_upload", Key=f"{PREFIX}/{name}")
        assert await blobs.clear_unfinished(ACME, before=await an_hour_ago(blobs)) == 0
        assert await blobs.clear_unfinished(ACME, before=EVER, dry_run=True) == 2
        await blobs.delete_all(ACME)
        assert await raw.uploads() == [f"{PREFIX}/acme-2/one"]

    async def test_a_bucket_that_is_missing_is_named_with_what_to_do(self, server: Server) -> None:
        async with opened("daira-nowhere", url=server.url) as blobs:
            for call in [
                blobs.ping(),
                blobs.put(KEY, chunks(b"Dear Sir")),
                blobs.put(KEY, large()),
                content(blobs),
                content(blobs, start=3),
                blobs.delete_all(ACME),
                keys(blobs),
            ]:
                with pytest.raises(Unavailable, match="the bucket daira-nowhere: it does not exist; create it"):
                    await call

    async def test_without_credentials_it_is_said_what_to_set(
        self, server: Server, raw: Raw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        async with opened(raw.name, url=server.url) as blobs:
            with pytest.raises(Unavailable, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a role"):
                await blobs.ping()

    async def test_a_region_need_not_be_named(self, server: Server, raw: Raw) -> None:
        async with opened(raw.name, url=server.url, region=None) as blobs:
            await blobs.put(KEY, chunks(b"Dear Sir"))
            assert await content(blobs) == b"Dear Sir"


class TestS3BlobsOnMinistack(S3Suite):
    """Takes any credentials, and requests without any."""

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[Server]:
        server = Ministack()
        server.start()
        yield server
        server.close()


class TestS3BlobsOnSeaweedFS(S3Suite):
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[Server]:
        server = SeaweedFS(key_id=KEY_ID, secret=SECRET)
        server.start()
        yield server
        server.close()

    @pytest.mark.threat(60)
    async def test_an_object_is_not_read_by_its_address_alone(self, server: Server, blobs: S3Blobs, raw: Raw) -> None:
        await blobs.put(KEY, large())
        async with httpx.AsyncClient(trust_env=False) as stranger:
            answer = await stranger.get(f"{server.url}/{raw.name}/{PREFIX}/{KEY}")
        assert answer.status_code == httpx.codes.FORBIDDEN
        acl = await raw("get_object_acl", Key=f"{PREFIX}/{KEY}")
        assert not [grant for grant in acl["Grants"] if grant["Grantee"].get("URI")]

    async def test_wrong_credentials_are_told_and_not_shown(
        self, server: Server, raw: Raw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_credentials(monkeypatch, secret="not-the-made-up-secret")
        async with opened(raw.name, url=server.url) as blobs:
            for call in [blobs.ping(), blobs.put(KEY, chunks(b"Dear Sir")), blobs.put(KEY, large()), content(blobs)]:
                with pytest.raises(Unavailable, match="credentials are wrong or have expired") as refused:
                    await call
                assert "secret" not in str(refused.value)
        assert await raw.objects() == []

    async def test_an_unknown_key_is_told(self, server: Server, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
        set_credentials(monkeypatch, key_id="AKIDOTHER")
        async with opened(raw.name, url=server.url) as blobs:
            with pytest.raises(Unavailable, match=r"credentials are wrong or have expired \(InvalidAccessKeyId\)"):
                await blobs.ping()

    async def test_a_server_that_is_away_is_unavailable_and_what_it_held_is_there_when_it_is_back(
        self, server: Server, raw: Raw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(buckets, "TRIES", 1)
        async with opened(raw.name, url=server.url) as blobs:
            await self._lose_and_find(server, blobs)
        assert await raw.uploads() == []

    async def _lose_and_find(self, server: Server, blobs: S3Blobs) -> None:
        await blobs.put(KEY, large())
        half = blobs.put("acme/half", self._stopping(server))
        with pytest.raises(Unavailable, match="can't be reached"):
            await half
        for call in (blobs.ping(), content(blobs), blobs.put(KEY, chunks(b"Dear Sir")), blobs.delete(KEY)):
            with pytest.raises(Unavailable, match=r"S3 at 127.0.0.1:\d+ can't be reached"):
                await call
        server.start()
        await blobs.ping()
        assert await digest(blobs.get(KEY)) == await digest(large())
        with pytest.raises(NotFound):
            await content(blobs, "acme/half")
        # What could not be taken back is what the purge is for.
        assert await blobs.clear_unfinished(ACME, before=EVER) == len(["acme/half"])

    async def _stopping(self, server: Server) -> AsyncIterator[bytes]:
        async for piece in large():
            yield piece
        server.stop()
