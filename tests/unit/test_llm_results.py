"""What becomes of a job that asks a model: within its budget, nothing asked twice, every fault with its code."""

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.domain.errors import Unavailable
from app.domain.job_errors import unavailable_error
from app.domain.jobs import AttemptOutcome, JobError, JobState
from app.domain.leases import Lease
from app.handlers.llm import conversation
from app.handlers.llm.conversation import LlmBudget
from app.handlers.llm.results import ERRORS
from app.ports.llm import (
    LlmBusy,
    LlmContextExceeded,
    LlmRefused,
    LlmRejected,
    LlmTruncated,
    Question,
)
from app.services import execution
from tests.support.rig import LEASE, SECOND, Rig, fail, release
from tests.support.scripted_llm import Scripted, says
from tests.unit.bench import a_hold
from tests.unit.llm_desk import RECEIPT, LlmDesk, code_of, result_of

SUMMARY = says(summary="A receipt.")
LONG = ["Chapter\n" + "filler word " * 700 for _ in range(3)]

KINDS: dict[str, dict[str, Any]] = {
    "summarize": {},
    "extract": {"schema": {"properties": {"total": {"type": "number"}}}},
    "classify": {"labels": ["invoice", "receipt"]},
    "ask": {"question": "What was the total?"},
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "SETTLE_AGAIN", 0.001)
    monkeypatch.setattr(conversation, "KEEP_AGAIN", 0.001)


@pytest.fixture
def desk(rig: Rig) -> LlmDesk:
    return LlmDesk(rig=rig)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (LlmRefused("it will not"), "llm_refused"),
        (LlmContextExceeded("too long"), "llm_context_exceeded"),
        (LlmRejected("the key is refused"), "llm_not_configured"),
    ],
)
async def test_a_fault_of_the_question_fails_the_job_at_once(
    desk: LlmDesk, kind: str, fault: Exception, code: str
) -> None:
    desk.llm.script = [fault]
    job = await desk.ask(RECEIPT, kind, **KINDS[kind])
    assert (job.state, code_of(job), len(desk.llm.asked)) == (JobState.FAILED, code, 1)


async def test_the_log_and_not_the_tenant_is_told_why_a_request_is_rejected(desk: LlmDesk) -> None:
    desk.llm.script = [LlmRejected("there is no such model: check DAIRA_LLM_MODEL")]
    with capture_logs() as logged:
        job = await desk.ask(RECEIPT, "summarize")
    assert job.error == ERRORS[LlmRejected]
    assert [line["reason"] for line in logged if line["event"] == "llm_fault"] == [
        "there is no such model: check DAIRA_LLM_MODEL"
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_busy_server_costs_a_job_nothing_but_time(desk: LlmDesk, kind: str) -> None:
    desk.llm.script = [LlmBusy("slow down", after=timedelta(seconds=7))]
    job = await desk.ask(RECEIPT, kind, **KINDS[kind])
    assert (job.state, job.failures) == (JobState.QUEUED, 0)
    assert job.started_at is not None
    assert job.run_after - job.started_at >= timedelta(seconds=7)
    (attempt,) = await desk.rig.attempts(job)
    assert attempt.outcome is AttemptOutcome.SNOOZE


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_is_away_is_a_failure_that_is_tried_again(desk: LlmDesk, kind: str) -> None:
    desk.llm.script = [Unavailable("it fell silent", excusable=False)]
    job = await desk.ask(RECEIPT, kind, **KINDS[kind])
    assert (job.state, job.failures) == (JobState.QUEUED, 1)
    (attempt,) = await desk.rig.attempts(job)
    away = Unavailable("it fell silent")
    assert attempt.error == unavailable_error(Lease(job.tenant_id, job.id, 1), away)
    assert "it fell silent" not in attempt.error.message


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_is_cut_off_is_tried_once_more_at_length(desk: LlmDesk, kind: str) -> None:
    desk.llm.script = [LlmTruncated("cut off"), LlmTruncated("cut off again")]
    job = await desk.ask(RECEIPT, kind, **KINDS[kind])
    assert code_of(job) == "llm_invalid_output"
    first, second = desk.llm.asked
    assert second.max_output_tokens == 2 * first.max_output_tokens
    assert "of no use" not in second.user, "there is nothing to say against it but its length"


async def test_usage_is_summed_once_over_tries(desk: LlmDesk) -> None:
    desk.llm.script = ["useless", SUMMARY]
    usage = result_of(await desk.ask(RECEIPT, "summarize"))["usage"]
    assert usage["calls"] == 2
    assert usage["input_tokens"] + usage["output_tokens"] == desk.llm.spent


# The text


async def test_a_job_waits_while_the_text_is_being_read(desk: LlmDesk) -> None:
    document = await desk.rig.document(await desk.rig.tenant())
    await desk.rig.enqueue(document.tenant_id, document_id=document.id, kind="ocr")
    job, _ = await desk.run(await desk.job(document, "summarize"))
    assert (job.state, job.failures) == (JobState.QUEUED, 0)
    assert job.started_at is not None
    assert timedelta(seconds=30) <= job.run_after - job.started_at <= timedelta(seconds=90)


async def test_a_job_whose_text_could_not_be_read_fails_for_the_same_reason(desk: LlmDesk) -> None:
    document = await desk.rig.document(await desk.rig.tenant())
    reading = await desk.rig.enqueue(document.tenant_id, document_id=document.id, kind="ocr")
    corrupt = JobError(code="corrupt", message="it did not work")
    await desk.rig.settle(replace(fail(await desk.rig.lease(reading)), error=corrupt))
    job, _ = await desk.run(await desk.job(document, "summarize"))
    assert code_of(job) == "corrupt"
    assert job.error is not None
    assert "it did not work" in job.error.message


async def test_a_job_without_any_text_to_come_says_what_to_ask_for(desk: LlmDesk) -> None:
    document = await desk.rig.document(await desk.rig.tenant())
    job, _ = await desk.run(await desk.job(document, "summarize"))
    assert code_of(job) == "empty"
    assert job.error is not None
    assert "ocr" in job.error.message


async def test_a_document_of_empty_pages_is_not_asked_about(desk: LlmDesk) -> None:
    assert code_of(await desk.ask(["", " "], "summarize")) == "empty"
    assert desk.llm.asked == []


async def test_pages_without_text_are_told(desk: LlmDesk) -> None:
    desk.llm.script = [SUMMARY]
    result = result_of(await desk.ask(["", RECEIPT, ""], "summarize"))
    assert [warning["code"] for warning in result["warnings"]] == ["pages_without_text"]
    assert result["warnings"][0]["pages"] == "1,3"


# What was answered


async def test_no_transaction_is_open_while_the_model_is_asked(rig: Rig) -> None:
    open_now = 0

    class Counting:
        @asynccontextmanager
        async def begin(self, tenant_id: Any) -> Any:
            nonlocal open_now
            open_now += 1
            async with rig.database.begin(tenant_id) as tx:
                yield tx
            open_now -= 1

    seen: list[int] = []

    def noting(_question: Question) -> str:
        seen.append(open_now)
        return SUMMARY

    desk = LlmDesk(rig=rig, llm=Scripted(rule=noting, context_tokens=6_000))
    document = await desk.document(*LONG)
    job, _ = await desk.run(await desk.job(document, "summarize"), database=Counting())
    result_of(job)
    assert seen == [0, 0, 0, 0]


@pytest.mark.parametrize("trouble", [LlmBusy("busy", after=SECOND), Unavailable("away")])
async def test_what_was_answered_is_not_asked_again_by_the_next_attempt(rig: Rig, trouble: Exception) -> None:
    desk = LlmDesk(rig=rig, llm=Scripted(context_tokens=6_000))
    document = await desk.document(*LONG)
    desk.llm.script = [says(summary="first part"), says(summary="second part"), trouble]
    job, _ = await desk.run(await desk.job(document, "summarize"))
    assert job.state is JobState.QUEUED
    await rig.advance(LEASE)
    desk.llm.script = [says(summary="third part"), says(summary="the whole")]
    result = result_of((await desk.run(job))[0])
    assert result["summary"] == "the whole"
    shown = desk.llm.asked[-1].user
    assert [part in shown for part in ("first part", "second part", "third part")] == [True] * 3
    assert result["usage"]["calls"] == 4
    assert result["usage"]["input_tokens"] + result["usage"]["output_tokens"] == desk.llm.spent


async def test_a_useless_answer_is_remembered_so_that_a_busy_server_is_not_paid_for_ever(desk: LlmDesk) -> None:
    document = await desk.document(RECEIPT)
    job = await desk.job(document, "summarize")
    desk.llm.script = ["useless"]
    for _ in range(5):
        desk.llm.script.append(LlmBusy("busy", after=SECOND))
        job, _ = await desk.run(job)
        await desk.rig.advance(SECOND * 2)
    desk.llm.script = ["useless again"]
    job, _ = await desk.run(job)
    assert code_of(job) == "llm_invalid_output"
    assert len(desk.llm.asked) == 7
    assert sum("of no use" in question.user for question in desk.llm.asked) == 6


async def test_an_answer_outlives_an_outage_of_the_database(rig: Rig) -> None:
    desk = LlmDesk(rig=rig, llm=Scripted(rule=lambda _: SUMMARY, context_tokens=6_000))
    document = await desk.document(*LONG)

    class Flaky:
        """Away twice for whoever wants to keep an answer."""

        away = 2

        @asynccontextmanager
        async def begin(self, tenant_id: Any) -> Any:
            if desk.llm.asked and self.away:
                self.away -= 1
                raise Unavailable("away")
            async with rig.database.begin(tenant_id) as tx:
                yield tx

    job, _ = await desk.run(await desk.job(document, "summarize"), database=Flaky())
    result_of(job)
    assert len(desk.llm.asked) == 4


async def test_who_has_lost_the_lease_keeps_no_answer_and_asks_no_more(rig: Rig) -> None:
    desk = LlmDesk(rig=rig, llm=Scripted(context_tokens=6_000))
    document = await desk.document(*LONG)
    job = await desk.job(document, "summarize")
    handler = desk.handlers()["summarize"]
    claimed = await rig.claimed(job)
    await rig.settle(release(claimed.lease))
    desk.llm.script = [SUMMARY]
    with pytest.raises(Exception, match="lease is lost"):
        await handler.run(claimed, a_hold(claimed))
    assert len(desk.llm.asked) == 1


async def test_what_led_to_a_result_is_forgotten_with_the_settle(rig: Rig) -> None:
    desk = LlmDesk(rig=rig, llm=Scripted(rule=lambda _: SUMMARY, context_tokens=6_000))
    job = await desk.ask(LONG, "summarize")
    async with rig.database.begin(job.tenant_id) as tx:
        assert await tx.answers.kept(job.id) == []


# The budget


@pytest.mark.parametrize("budget", [LlmBudget(calls=2, tokens=10**9), LlmBudget(calls=100, tokens=5_000)])
async def test_a_document_beyond_the_budget_is_refused_before_a_question_is_asked(rig: Rig, budget: LlmBudget) -> None:
    desk = LlmDesk(rig=rig, llm=Scripted(context_tokens=6_000), budget=budget)
    job = await desk.ask(LONG, "summarize")
    assert code_of(job) == "llm_context_exceeded"
    assert job.error is not None
    assert f"a job may have {budget}" in job.error.message
    assert desk.llm.asked == []


async def test_a_job_ends_where_its_budget_does(rig: Rig) -> None:
    desk = LlmDesk(rig=rig, llm=Scripted(rule=lambda _: "useless"), budget=LlmBudget(calls=1, tokens=10**9))
    assert code_of(await desk.ask(RECEIPT, "summarize")) == "llm_context_exceeded"
    assert len(desk.llm.asked) == 1


async def test_a_wish_that_leaves_no_room_for_a_document_fails(rig: Rig) -> None:
    desk = LlmDesk(rig=rig, llm=Scripted(context_tokens=2_048))
    job = await desk.ask(RECEIPT, "ask", question="why " * 1_000)
    assert code_of(job) == "llm_context_exceeded"
    assert desk.llm.asked == []
