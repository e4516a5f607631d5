"""The image and docker-compose.yml, run: `./daira test -m image tests/images -n0`. Minutes; as root, with podman."""

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.composed import Composed, composed
from tests.support.folders import open_folder
from tests.support.podman import Podman
from tests.support.ports import free_port
from tests.support.sample_documents import SENTENCE, Sheet, drawn, encoded, pdf
from tests.support.service import upload, wait_until

pytestmark = [pytest.mark.image, pytest.mark.timeout(3_600)]

GRACE = 3
"""Seconds: set in `.env`, so that the file is seen to arrive."""

MOST_BYTES = 400_000_000
"""Of all that lies above the base, unpacked; a third of it packed."""

READY = "import urllib.request as http; http.urlopen('http://127.0.0.1:8000/readyz')"
STATUS = "print(open('/proc/1/status').read())"
ZOMBIES = """
import pathlib
print(sum(") Z " in path.read_text() for path in pathlib.Path("/proc").glob("[0-9]*/stat")))
"""
READERS = """
import os, pathlib
for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
    pid, parent = path.parent.name, path.read_text().rpartition(") ")[2].split()[1]
    if parent == "1" and pid != str(os.getpid()):
        print(pid)
"""


@pytest.fixture(scope="module")
def podman() -> Podman:
    podman = Podman()
    podman.images()
    return podman


@pytest.fixture(scope="module")
def deployed(podman: Podman) -> Iterator[Composed]:
    with open_folder() as folder, composed(podman, folder, port=free_port(), DAIRA_GRACE_SECONDS=str(GRACE)) as running:
        running.start_all()
        yield running


@pytest.fixture(scope="module")
def client(deployed: Composed) -> Iterator[httpx.Client]:
    with client_of(deployed) as client:
        yield client


@contextlib.contextmanager
def client_of(deployed: Composed) -> Iterator[httpx.Client]:
    assert deployed.execute("web", "daira", "tenant", "create", "acme").returncode == 0
    done = deployed.execute("web", "daira", "key", "create", "acme")
    key = next(word for word in done.stdout.split() if word.startswith("daira_acme_"))
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=deployed.url, headers=headers, timeout=90, trust_env=False) as client:
        yield client


def text_of(client: httpx.Client, document: Any) -> str:
    job = client.get(f"/v1/jobs/{document['jobs'][0]['id']}", params={"wait": 60}).json()
    assert job["state"] == "done", job
    return client.get(f"/v1/documents/{document['id']}/text").text


def size(podman: Podman, image: str) -> int:
    return int(podman("inspect", "--format", "{{.Size}}", image))


def test_above_its_base_it_is_small(podman: Podman) -> None:
    base = size(podman, "docker.io/library/python:3.13-slim-trixie")
    assert size(podman, "localhost/daira:local") - base < MOST_BYTES


def test_it_says_what_it_is(podman: Podman) -> None:
    told = json.loads(podman("inspect", "localhost/daira:local"))[0]["Config"]
    assert told["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert told["User"] == "10001:10001"
    assert told["Entrypoint"] == ["daira"]


def test_without_settings_it_refuses_and_says_what_is_missing(podman: Podman) -> None:
    refused = podman.attempt("run", "--rm", "--read-only", "--cap-drop=ALL", "localhost/daira:local")
    assert refused.returncode == 78
    assert "DAIRA_DATABASE_URL is empty" in refused.stderr
    assert "DAIRA_BLOB_URL is empty" in refused.stderr


@pytest.mark.parametrize("service", ["web", "worker"])
def test_all_that_it_needs_answers(deployed: Composed, service: str) -> None:
    wait_until(lambda: deployed.execute(service, "python", "-c", READY).returncode == 0, seconds=60)


@pytest.mark.parametrize("language", ["eng", "deu"])
def test_a_scan_is_read(client: httpx.Client, language: str) -> None:
    scan = encoded(drawn(SENTENCE, f"in {language}"))
    assert SENTENCE in text_of(client, upload(client, scan, name="scan.png", language=language))


def test_a_page_is_drawn_by_a_child_of_the_web(client: httpx.Client) -> None:
    document = upload(client, pdf(Sheet(lines=("to be seen",))))
    image = client.get(f"/v1/documents/{document['id']}/pages/1/image", params={"width": 200})
    assert image.content.startswith(b"\x89PNG")


@pytest.mark.parametrize("service", ["web", "worker"])
def test_the_first_process_is_the_program_without_any_rights(deployed: Composed, service: str) -> None:
    status = dict(line.split(":\t", 1) for line in deployed.python(service, STATUS).splitlines() if ":\t" in line)
    assert status["Name"] == "daira"
    assert status["Uid"].split() == ["10001"] * 4
    assert {status[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    for place in ("/opt/daira/x", "/etc/x"):
        assert deployed.execute(service, "touch", place).returncode != 0


def test_the_doctor_finds_nothing_and_the_selftest_passes(deployed: Composed) -> None:
    for command in ("doctor", "selftest"):
        done = deployed.execute("web", "daira", command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_no_dead_child_is_left_where_readers_are_killed(deployed: Composed, client: httpx.Client) -> None:
    readers = deployed.python("worker", READERS).split()
    assert readers
    for reader in readers:
        assert deployed.execute("worker", "python", "-c", f"import os; os.kill({reader}, 9)").returncode == 0
    for number in range(3):
        text_of(client, upload(client, encoded(drawn(SENTENCE, f"again, {number}")), name="scan.png"))
    for service, number in (("web", 1), ("worker", 1), ("worker", 2)):
        assert deployed.python(service, ZOMBIES, number=number) == "0"


def test_all_in_one_is_a_role_too(podman: Podman, deployed: Composed) -> None:
    web = deployed.name("web")
    given = json.loads(podman("inspect", web))[0]["Config"]["Env"]
    name = f"{deployed.project}-all"
    kept_down = ["--read-only", "--tmpfs=/tmp", "--cap-drop=ALL"]
    theirs = [f"--network={deployed.project}_default", f"--volume={deployed.project}_documents:/var/lib/daira"]
    settings = [f"--env={each}" for each in given if each.startswith("DAIRA_")]
    podman(
        "run",
        "--detach",
        f"--name={name}",
        *kept_down,
        *theirs,
        *settings,
        "--env=DAIRA_ROLE=all",
        "localhost/daira:local",
    )
    try:
        wait_until(lambda: podman.attempt("exec", name, "python", "-c", READY).returncode == 0, seconds=60)
        podman("kill", "--signal=TERM", name)
        assert podman("wait", name) == "0"
    finally:
        podman("rm", "--force", "--volumes", name)


def test_told_to_stop_it_gives_back_what_it_can_not_finish_and_leaves_in_peace(
    deployed: Composed, client: httpx.Client
) -> None:
    sheets = [
        Sheet(image=drawn(*[f"{SENTENCE} {page} {line}" for line in range(8)], size=(2400, 1600)))
        for page in range(150)
    ]
    document = upload(client, pdf(*sheets))
    job = f"/v1/jobs/{document['jobs'][0]['id']}"
    wait_until(lambda: (client.get(job).json()["progress"] or {"done": 0})["done"] > 0, seconds=60)
    with ThreadPoolExecutor() as both:
        assert list(both.map(lambda number: deployed.stop("worker", number=number), (1, 2))) == [0, 0]
    left = client.get(job).json()
    assert (left["state"], left["releases"], left["failures"], left["expiries"]) == ("queued", 1, 0, 0)


def test_a_web_that_is_told_to_stop_leaves_in_peace(deployed: Composed) -> None:
    """The last of them: nothing is served afterwards."""
    assert deployed.stop("web") == 0


@pytest.fixture
def on_aws(podman: Podman) -> Iterator[Composed]:
    chosen = {
        "DAIRA_AWS_ENDPOINT_URL": "http://aws:4566",
        "DAIRA_QUEUE_URL": "sqs://daira",
        "DAIRA_BLOB_URL": "s3://daira-documents/local",
        "COMPOSE_PROFILES": "aws",
    }
    with open_folder() as folder, composed(podman, folder, port=free_port(), **chosen) as running:
        running.start("aws")
        running.until_healthy("aws")
        running.start("bucket")
        assert running.ended("bucket") == 0, running.log("bucket")
        running.start_all()
        yield running


def test_the_same_with_documents_in_s3_and_bells_in_sqs(on_aws: Composed) -> None:
    with client_of(on_aws) as client:
        scan = encoded(drawn(SENTENCE, "from a bucket"))
        assert SENTENCE in text_of(client, upload(client, scan, name="scan.png"))
    assert on_aws.python("worker", "import os; print(os.listdir('/var/lib/daira'))") == "[]"
