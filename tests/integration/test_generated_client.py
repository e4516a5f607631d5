"""A client made of `/openapi.json` by a public generator uploads a document, waits for its job, and reads its text."""

import importlib
import io
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import pytest_asyncio
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

from tests.support.databases import Databases
from tests.support.folders import open_folder
from tests.support.sample_documents import SENTENCE, Sheet, pdf
from tests.support.service import Service, serving

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

NAME = "generated_client_of_daira"

BYTES_ALONE = {"*/*", "image/png", "application/pdf", "application/xml"}
"""Types of answers that the generator has no function for: it leaves their bytes to whoever asks, and says so."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(databases: Databases) -> AsyncIterator[Service]:
    async with databases.clone() as cloned:
        with open_folder() as folder, serving(cloned, folder) as service:
            yield service


@pytest.fixture
def generated(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    document = tmp_path / "openapi.json"
    document.write_bytes(httpx.get(f"{service.url}/openapi.json", trust_env=False).content)
    config = Config.from_sources(
        ConfigFile(post_hooks=[]), MetaType.NONE, document, "utf-8", True, output_path=tmp_path / NAME
    )
    said = [f"{fault.header} {fault.detail}" for fault in generate(config=config)]
    assert [each for each in said if not any(f"Unsupported content_type {kind}" in each for kind in BYTES_ALONE)] == []
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(NAME)
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def part(name: str) -> Any:
    return importlib.import_module(f"{NAME}.{name}")


async def test_a_generated_client_uploads_waits_and_reads(service: Service, generated: ModuleType) -> None:
    file = part("types").File(payload=io.BytesIO(pdf(Sheet(lines=(SENTENCE,)))), file_name="letter.pdf")
    body = part("models").UploadDocumentBody(file=file, metadata='{"order": 815}')
    async with generated.AuthenticatedClient(base_url=service.url, token=service.api_key) as client:
        document = await part("api.documents.upload_document").asyncio(client=client, body=body, idempotency_key="one")
        assert isinstance(document, part("models").Document), document
        assert (document.filename, document.metadata.to_dict()) == ("letter.pdf", {"order": 815})
        (queued,) = document.jobs
        job = await part("api.jobs.get_job").asyncio(queued.id, client=client, wait=30)
        assert (job.state, job.result, [attempt.outcome for attempt in job.history]) == ("done", None, ["done"])
        assert (await part("api.documents.get_text").asyncio(document.id, client=client)).strip() == SENTENCE
        (page,) = (await part("api.documents.list_pages").asyncio(document.id, client=client)).data
        assert (page.number, page.source) == (1, "text_layer")


async def test_a_generated_client_knows_an_error_when_it_meets_one(service: Service, generated: ModuleType) -> None:
    async with generated.AuthenticatedClient(base_url=service.url, token="wrong") as client:
        problem = await part("api.me.get_me").asyncio(client=client)
    assert isinstance(problem, part("models").Problem)
    assert (problem.status, problem.code) == (401, "unauthorized")
