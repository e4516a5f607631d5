"""The whole chain with a real language model: whatever answers at DAIRA_LLM_BASE_URL.

Its answers are its own: what is checked is that each job ends well, and that nothing is called verified that is not
on the page.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.folders import open_folder
from tests.support.sample_documents import drawn, encoded
from tests.support.service import Service, ended, up, upload

pytestmark = [pytest.mark.real_llm, pytest.mark.timeout(1_800)]

RECEIPT = encoded(
    drawn("KESTREL BOOKS", "Invoice 48213", "Date 12 March 2026", "Total 53.40 GBP", size=(1200, 700)), dpi=(200, 200)
)
SCHEMA = """{"type": "object", "properties": {"total": {"type": "number"}, "invoice": {"type": "string"}},
             "required": ["total", "invoice"], "additionalProperties": false}"""
JOBS = f"""[{{"kind": "ocr"}}, {{"kind": "summarize", "max_words": 30}}, {{"kind": "extract", "schema": {SCHEMA}}},
           {{"kind": "classify", "labels": ["invoice", "letter"]}}, {{"kind": "ask", "question": "Which total?"}}]"""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    given = {name: value for name, value in os.environ.items() if name.startswith("DAIRA_LLM_")}
    assert "DAIRA_LLM_BASE_URL" in given, "set DAIRA_LLM_BASE_URL and DAIRA_LLM_MODEL: docs/llm.md"
    with open_folder() as folder, up(Path(folder) / "data", **given) as service:
        yield service


def test_a_receipt_is_read_summarized_extracted_classified_and_asked(service: Service) -> None:
    with service.client() as client:
        document = upload(client, RECEIPT, name="receipt.png", jobs=JOBS)
        jobs = {job["kind"]: ended(client, job, seconds=60) for job in document["jobs"]}
    assert {kind: job["state"] for kind, job in jobs.items()} == dict.fromkeys(jobs, "done")
    assert jobs["summarize"]["result"]["summary"]
    assert set(jobs["extract"]["result"]["data"]) == {"total", "invoice"}
    assert set(jobs["classify"]["result"]["labels"]) <= {"invoice", "letter"}
    for pointer, citation in jobs["extract"]["result"]["citations"].items():
        assert citation["verified"] or pointer in jobs["extract"]["result"]["unverified"]
