"""What no real S3 can be made to do: refusals, answers that make no sense, and silence at the worst moment."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from app.adapters.s3 import bucket as buckets
from app.adapters.s3 import upload as uploads
from app.adapters.s3.blobs import S3Blobs
from app.domain.errors import NotFound, TooLarge, Unavailable
from tests.conformance.blobs_suite import ACME, EVER, KEY, Refused, chunks, content, keys, large
from tests.support.s3 import PREFIX, opened, set_up
from tests.support.scripted_s3 import Answer, Scripted, error, scripted, xml

BEGIN, PART, COMPLETE, ABORT = "POST uploads", "PUT partNumber uploadId", "POST uploadId", "DELETE uploadId"


@pytest.fixture(autouse=True)
def _set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch)
    monkeypatch.setattr(buckets, "TRIES", 1)


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with scripted() as server:
        yield server


@pytest.fixture
async def blobs(server: Scripted) -> AsyncIterator[S3Blobs]:
    async with opened("daira", url=server.url) as blobs:
        yield blobs


async def test_a_small_blob_is_one_request_and_a_large_one_a_few(server: Scripted, blobs: S3Blobs) -> None:
    await blobs.put(KEY, chunks(b"Dear Sir"))
    await blobs.put(KEY, large())
    assert server.kinds() == ["PUT", BEGIN, PART, PART, PART, COMPLETE]
    assert {request.path for request in server.asked} == {f"/daira/{PREFIX}/{KEY}"}
    assert [request.query["partNumber"] for request in server.asked if request.kind == PART] == [["1"], ["2"], ["3"]]


async def test_no_request_makes_an_object_public_or_names_what_a_user_sent(server: Scripted, blobs: S3Blobs) -> None:
    await blobs.put(KEY, chunks(b"Dear Sir"))
    await blobs.put(KEY, large())
    named = {name for request in server.asked for name in request.headers}
    assert not {name for name in named if name.startswith(("x-amz-acl", "x-amz-grant", "x-amz-meta", "x-amz-tagging"))}


@pytest.mark.parametrize("kind", [BEGIN, PART, COMPLETE])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (error(403, "AccessDenied"), "allow s3:PutObject on it"),
        (error(500, "InternalError"), "was refused"),
        (error(404, "NoSuchUpload"), "ended by another process"),
        (Answer(status=200, body=b"<html>a portal</html>"), "is not S3"),
        (Answer(status=503, body=b""), "was refused"),
        (error(507, "XMinioStorageFull"), "it is full"),
    ],
)
async def test_an_upload_that_fails_anywhere_is_taken_back(
    server: Scripted, blobs: S3Blobs, *, kind: str, answer: Answer, told: str
) -> None:
    server.answers[kind] = [answer]
    with pytest.raises(Unavailable, match=told) as refused:
        await blobs.put(KEY, large())
    assert "secret" not in str(refused.value)
    assert server.kinds().count(ABORT) == (kind != BEGIN)
    if kind != BEGIN:
        assert server.asked[-1].query["uploadId"] == ["an-upload"]


async def test_what_is_no_s3_has_stored_nothing(server: Scripted, blobs: S3Blobs) -> None:
    server.answers["PUT"] = [Answer(body=b"<html>a portal</html>")]
    with pytest.raises(Unavailable, match="is not S3"):
        await blobs.put(KEY, chunks(b"Dear Sir"))


async def test_the_end_of_an_upload_may_fail_in_an_answer_of_status_200(server: Scripted, blobs: S3Blobs) -> None:
    server.answers[COMPLETE] = [Answer(status=200, body=error(200, "InternalError").body)]
    with pytest.raises(Unavailable, match="InternalError"):
        await blobs.put(KEY, large())
    assert server.kinds()[-1] == ABORT


async def test_an_upload_that_can_not_be_taken_back_fails_as_it_did_and_that_is_logged(
    server: Scripted, blobs: S3Blobs
) -> None:
    server.answers[ABORT] = [error(403, "AccessDenied")]
    with capture_logs() as logs, pytest.raises(Refused):
        await blobs.put(KEY, large(then=Refused))
    (entry,) = [entry for entry in logs if entry["event"] == "upload_left_unfinished"]
    assert "s3:AbortMultipartUpload" in entry["reason"]


async def test_taking_back_has_an_end_where_the_server_is_silent(
    server: Scripted, blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "ABORT_PATIENCE", 0.2)
    server.hold(ABORT)
    began = time.monotonic()
    with pytest.raises(Refused):
        await blobs.put(KEY, large(then=Refused))
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", [BEGIN, PART, COMPLETE])
async def test_a_put_that_is_cancelled_while_a_request_is_on_its_way_is_taken_back(
    server: Scripted, blobs: S3Blobs, kind: str
) -> None:
    arrived, answered = server.hold(kind)
    upload = asyncio.create_task(blobs.put(KEY, large()))
    async with asyncio.timeout(10):
        await arrived.wait()
        upload.cancel()
        await asyncio.sleep(0)
        upload.cancel()
        answered.set()
        await asyncio.gather(upload, return_exceptions=True)
    assert upload.cancelled()
    assert server.kinds()[-1] == ABORT


async def test_one_part_is_sent_while_the_next_is_filled_and_no_more(server: Scripted, blobs: S3Blobs) -> None:
    _, answered = server.hold(PART)
    taken = 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal taken
        async for piece in large(40 * 1024 * 1024):
            taken += len(piece)
            yield piece

    upload = asyncio.create_task(blobs.put(KEY, counted()))
    async with asyncio.timeout(10):
        while PART not in server.kinds():
            await asyncio.sleep(0.01)
        before = -1
        while taken != before:
            before = taken
            await asyncio.sleep(0.1)
        assert taken <= 2 * uploads.PART + 65536
        answered.set()
        await upload
    assert server.kinds().count(PART) == 5


async def test_no_part_is_on_its_way_any_more_when_an_upload_is_taken_back(server: Scripted, blobs: S3Blobs) -> None:
    arrived, _ = server.hold(PART)
    on_their_way: list[str] = []

    def look(_request: object) -> Answer:
        names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
        on_their_way.extend(name for name in names if name == "_send_one")
        return Answer(status=204)

    async def refused_late() -> AsyncIterator[bytes]:
        async for piece in large(12 * 1024 * 1024):
            yield piece
        await arrived.wait()
        raise Refused

    server.answers[ABORT] = [look]
    with pytest.raises(Refused):
        await blobs.put(KEY, refused_late())
    assert server.kinds()[-1] == ABORT
    assert on_their_way == []


async def test_a_blob_of_more_parts_than_there_may_be_is_refused(
    server: Scripted, blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_PARTS", 2)
    await blobs.put(KEY, large(2 * uploads.PART))
    with pytest.raises(TooLarge, match="16,777,216"):
        await blobs.put(KEY, large(2 * uploads.PART + 1))
    assert server.kinds()[-1] == ABORT


async def test_what_passes_is_tried_again(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "TRIES", 3)
    server.answers[PART] = [error(503, "SlowDown"), Answer(headers={"ETag": '"a-part"'})]
    async with opened("daira", url=server.url) as blobs:
        await blobs.put(KEY, large())
    parts = [request for request in server.asked if request.kind == PART]
    assert len(parts) == 4
    assert parts[0].body == parts[1].body


async def test_a_server_that_takes_no_notice_of_the_prefix_costs_others_nothing(
    server: Scripted, blobs: S3Blobs
) -> None:
    other = "<LastModified>2026-01-01T00:00:00Z</LastModified>"
    listed = (
        f"<Contents><Key>{PREFIX}/acme/1</Key>{other}</Contents><Contents><Key>{PREFIX}/bolt/1</Key>{other}</Contents>"
    )
    server.answers["GET list-type"] = [xml("ListBucketResult", listed)]
    begun = f"<Upload><Key>{PREFIX}/bolt/1</Key><UploadId>u</UploadId></Upload>"
    for unfinished in ("", begun):
        server.answers["GET uploads"] = [xml("ListMultipartUploadsResult", unfinished)]
        with pytest.raises(Unavailable, match="it lists objects of other tenants"):
            await blobs.delete_all(ACME)
    with pytest.raises(Unavailable, match="it lists objects of other tenants"):
        await keys(blobs)
    with pytest.raises(Unavailable, match="it lists objects of other tenants"):
        await blobs.clear_unfinished(ACME, before=EVER)
    assert not {"POST delete", ABORT} & set(server.kinds())


async def test_objects_that_a_request_leaves_behind_are_told(server: Scripted, blobs: S3Blobs) -> None:
    listed = f"<Contents><Key>{PREFIX}/acme/1</Key><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
    server.answers["GET list-type"] = [xml("ListBucketResult", listed)]
    server.answers["POST delete"] = [xml("DeleteResult", "<Error><Key>x</Key><Code>AccessDenied</Code></Error>")]
    with pytest.raises(Unavailable, match=r"1 objects were not deleted \(AccessDenied\)"):
        await blobs.delete_all(ACME)


async def test_a_server_that_knows_no_ranges_is_found_out(server: Scripted, blobs: S3Blobs) -> None:
    server.answers["GET"] = [Answer(body=b"0123456789")]
    assert await content(blobs) == b"0123456789"
    with pytest.raises(Unavailable, match="sends whole objects"):
        await content(blobs, start=3, end=5)


@pytest.mark.parametrize("start", [0, 3])
async def test_a_body_that_breaks_off_is_unavailable(server: Scripted, blobs: S3Blobs, start: int) -> None:
    server.answers["GET"] = [Answer(body=b"x" * 5000, cut=True, headers={"Content-Range": "bytes 3-5003/5004"})]
    with pytest.raises(Unavailable, match="can't be reached"):
        await content(blobs, start=start)


async def test_a_body_that_is_not_what_was_stored_is_unavailable(server: Scripted, blobs: S3Blobs) -> None:
    server.answers["GET"] = [Answer(body=b"Dear Sir", headers={"x-amz-checksum-crc32": "AAAAAA=="})]
    with pytest.raises(Unavailable, match="FlexibleChecksumError"):
        await content(blobs)


async def test_silence_is_unavailable(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "READ_PATIENCE", 0.2)
    server.hold("GET")
    async with opened("daira", url=server.url) as blobs, asyncio.timeout(10):
        with pytest.raises(Unavailable, match="can't be reached"):
            await content(blobs)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (error(403, "AccessDenied"), "allow s3:ListBucket on it"),
        (error(404, "NoSuchBucket"), "create it, or set DAIRA_BLOB_URL"),
        (error(403, "InvalidAccessKeyId"), "credentials are wrong or have expired"),
        (error(400, "ExpiredToken"), "credentials are wrong or have expired"),
        (error(403, "RequestTimeTooSkewed"), "the clock of this machine is wrong"),
        (error(503, "SlowDown"), "asks for fewer requests"),
        (error(400, "AuthorizationHeaderMalformed"), "set DAIRA_AWS_REGION"),
        (error(301, "PermanentRedirect"), "set DAIRA_AWS_REGION"),
        (error(500, "InternalError"), r"ListObjectsV2 was refused \(InternalError\)"),
        (Answer(body=b"<html>a portal</html>"), "the server at its endpoint is not S3"),
        (Answer(status=502, body=b"<html>bad gateway</html>"), "."),
    ],
)
async def test_a_ping_says_what_to_do_and_shows_nothing(
    server: Scripted, blobs: S3Blobs, answer: Answer, told: str
) -> None:
    server.answers["GET list-type"] = [answer]
    with pytest.raises(Unavailable, match=f"the bucket daira: .*{told}") as refused:
        await blobs.ping()
    assert "secret" not in str(refused.value)


async def test_a_head_without_a_body_is_understood(server: Scripted, blobs: S3Blobs) -> None:
    for status, expected in ((404, NotFound), (403, Unavailable), (500, Unavailable)):
        server.answers["HEAD"] = [Answer(status=status)]
        with pytest.raises(expected):
            await content(blobs, start=3, end=3)


async def test_the_password_of_an_endpoint_is_not_shown() -> None:
    async with opened("daira", url="http://user:hunter2@127.0.0.1:1") as blobs:
        with pytest.raises(Unavailable, match=r"S3 at 127.0.0.1:1 can't be reached") as refused:
            await blobs.ping()
    assert "hunter2" not in str(refused.value)
