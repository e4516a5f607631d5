"""A document's status is derived from its pages and jobs, so that it can't disagree with them."""

from datetime import UTC, datetime
from itertools import product

import pytest

from app.adapters.memory import transitions
from app.domain.documents import DocumentStatus, blob_key, document_status, parse_blob_key
from app.domain.errors import Invalid
from app.domain.ids import DocumentId, TenantId, uuid7
from app.domain.jobs import Job, JobState
from tests.support.rig import new_document, new_job

ACME = TenantId("acme")


def job(state: JobState) -> Job:
    row = transitions.queued(new_job(), tenant=ACME, now=datetime.now(UTC)).job
    return Job(**{name: getattr(row, name) for name in Job.__dataclass_fields__} | {"state": state})


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.CLAIMED])
def test_a_document_is_processing_while_a_job_may_still_read_it(state: JobState) -> None:
    assert document_status(new_document(ACME), [job(state)]) is DocumentStatus.PROCESSING


@pytest.mark.parametrize("state", [JobState.DONE, JobState.FAILED, JobState.CANCELLED])
def test_a_document_without_text_has_failed_when_all_its_jobs_have_ended(state: JobState) -> None:
    assert document_status(new_document(ACME), [job(state)]) is DocumentStatus.FAILED


def test_a_document_without_text_and_without_jobs_has_failed() -> None:
    assert document_status(new_document(ACME), []) is DocumentStatus.FAILED


@pytest.mark.parametrize("state", list(JobState))
def test_a_document_with_text_is_ready_whatever_its_jobs_do(state: JobState) -> None:
    assert document_status(new_document(ACME, page_count=3), [job(state)]) is DocumentStatus.READY


def test_a_document_of_no_pages_is_ready_too() -> None:
    assert document_status(new_document(ACME, page_count=0), []) is DocumentStatus.READY


@pytest.mark.parametrize("states", list(product(JobState, JobState)))
def test_one_live_job_among_ended_ones_keeps_a_document_processing(states: tuple[JobState, JobState]) -> None:
    live = any(not state.terminal for state in states)
    expected = DocumentStatus.PROCESSING if live else DocumentStatus.FAILED
    assert document_status(new_document(ACME), [job(state) for state in states]) is expected


def test_exactly_done_failed_and_cancelled_are_ends() -> None:
    assert {state for state in JobState if state.terminal} == {JobState.DONE, JobState.FAILED, JobState.CANCELLED}


@pytest.mark.threat(56, 59)
def test_a_blobs_key_is_made_of_our_names_alone_and_is_accepted_by_every_store() -> None:
    document = DocumentId(uuid7())
    assert blob_key(ACME, document) == f"acme/{document}"
    assert parse_blob_key(blob_key(ACME, document)) == ("acme", str(document))


@pytest.mark.parametrize(
    "key",
    ["", "acme", "/", "acme/", "/name", "acme/../x", "acme/a.b", "acme/a/b", "Acme/x", "acme/X", "acme/x\n", "a\0/x"],
)
def test_any_other_key_of_a_blob_is_refused(key: str) -> None:
    with pytest.raises(Invalid):
        parse_blob_key(key)
