"""The program with its documents in S3, over TLS as Amazon's: doctor, selftest and a purge."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import self_signed
from tests.support.databases import Cloned
from tests.support.s3 import KEY_ID, REGION, SECRET, Raw, raw_client
from tests.support.seaweedfs import SeaweedFS
from tests.support.service import run, serving, upload

pytestmark = pytest.mark.timeout(300)  # the program is started five times, on a busy machine


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("tls") / "certificate.pem")


@pytest.fixture(scope="module")
def server(certificate: Path) -> Iterator[SeaweedFS]:
    server = SeaweedFS(key_id=KEY_ID, secret=SECRET, certificate=certificate)
    server.start()
    yield server
    server.close()


@pytest.fixture
def settings(server: SeaweedFS, certificate: Path, cloned: Cloned, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    return {
        "DAIRA_DATABASE_URL": cloned.app_url,
        "DAIRA_BLOB_URL": f"s3://{asyncio.run(made(server))}/documents",
        "DAIRA_AWS_ENDPOINT_URL": server.url,
        "DAIRA_AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }


async def made(server: SeaweedFS) -> str:
    async with raw_client(server.url) as client:
        raw = Raw(client=client)
        await raw("create_bucket")
        return raw.name


async def objects(server: SeaweedFS, bucket: str) -> list[str]:
    async with raw_client(server.url) as client:
        return await Raw(client=client, name=bucket).objects()


def test_the_doctor_finds_the_bucket_in_production_or_says_what_to_do(settings: dict[str, str], folder: Path) -> None:
    healthy = run("doctor", cwd=folder, DAIRA_ENV="production", **settings)
    assert healthy.returncode == 0, healthy.stdout + healthy.stderr
    for given, told in [
        ({"DAIRA_BLOB_URL": "s3://daira-nowhere"}, "the bucket daira-nowhere: it does not exist; create it"),
        ({"AWS_SECRET_ACCESS_KEY": "another"}, "credentials are wrong or have expired"),
        # Which means to botocore that no certificate is looked at.
        ({"AWS_CA_BUNDLE": ""}, "can't be reached (SSLError)"),
        ({"AWS_PROFILE": "nobody"}, "(ProfileNotFound)"),
    ]:
        sick = run("doctor", cwd=folder, **settings | given)
        assert sick.returncode == 1, given
        assert told in sick.stdout + sick.stderr
        assert "Traceback" not in sick.stderr


def test_a_deployment_on_s3_passes_its_selftest_and_a_removed_document_leaves_no_object(
    settings: dict[str, str], server: SeaweedFS, cloned: Cloned, folder: Path
) -> None:
    bucket = settings["DAIRA_BLOB_URL"].split("/")[2]
    with serving(cloned, folder, DAIRA_SWEEP_SECONDS="1", DAIRA_OCR="null", **settings) as service:
        tried = run("selftest", cwd=folder, **settings | {"DAIRA_SWEEP_SECONDS": "1"})
        assert tried.returncode == 0, tried.stdout + tried.stderr
        with service.client() as client:
            document = upload(client, b"%PDF-1.7 hello")
            assert asyncio.run(objects(server, bucket)) == [f"documents/acme/{document['id']}"]
            assert client.delete(f"/v1/documents/{document['id']}").status_code == 204
        purged = run("purge", cwd=folder, **settings)
        assert purged.returncode == 0, purged.stderr
    assert asyncio.run(objects(server, bucket)) == []
