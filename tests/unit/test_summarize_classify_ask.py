"""The jobs `summarize`, `classify` and `ask`: on one page, and on documents longer than the model's context."""

import re
from typing import Any

import pytest

from app.domain.jobs import JobState, Progress
from app.ports.llm import LlmContextExceeded, Question
from tests.support.rig import Rig
from tests.support.scripted_llm import Scripted, says
from tests.unit.llm_desk import RECEIPT, LlmDesk, code_of, codes, result_of

FILLER = "filler word " * 700
LONG = [f"Chapter {number} of the book\n{FILLER}" for number in range(1, 6)]
SHORT_CONTEXT = 6_000


@pytest.fixture
def desk(rig: Rig) -> LlmDesk:
    return LlmDesk(rig=rig)


def pages_of(question: Question) -> list[int]:
    return [int(number) for number in re.findall(r"<\w+ page (\d+)>", question.user)]


# summarize


async def test_a_short_document_is_summed_up_in_one_question(desk: LlmDesk) -> None:
    desk.llm.script = [says(summary="A receipt for 3.50 EUR.")]
    result = result_of(await desk.ask(RECEIPT, "summarize", max_words=50, language="German"))
    assert result["summary"] == "A receipt for 3.50 EUR."
    assert result["coverage"] == {"pages": "1", "read": 1, "total": 1}
    assert result["warnings"] == []
    (question,) = desk.llm.asked
    assert "At most 50 words." in question.user
    assert "German" in question.user


async def test_a_summary_that_is_too_long_is_told_and_not_cut(desk: LlmDesk) -> None:
    desk.llm.script = [says(summary="word " * 40)]
    result = result_of(await desk.ask(RECEIPT, "summarize", max_words=30))
    assert len(result["summary"].split()) == 40
    assert codes(result) == ["longer_than_asked"]


async def test_an_empty_summary_is_none(desk: LlmDesk) -> None:
    desk.llm.script = [says(summary=""), says(summary="")]
    assert code_of(await desk.ask(RECEIPT, "summarize")) == "llm_invalid_output"


async def test_every_page_of_a_long_document_is_read_once_and_the_notes_are_summed_up(rig: Rig) -> None:
    def noting(question: Question) -> str:
        pages = pages_of(question)
        return says(summary=f"note on {pages}" if pages else "all of it")

    desk = LlmDesk(rig=rig, llm=Scripted(rule=noting, context_tokens=SHORT_CONTEXT))
    document = await desk.document(*LONG)
    job, hold = await desk.run(await desk.job(document, "summarize", max_words=70))
    result = result_of(job)
    assert result["summary"] == "all of it"
    *parts, last = desk.llm.asked
    assert [page for part in parts for page in pages_of(part)] == [1, 2, 3, 4, 5]
    assert all(f"note on {pages_of(part)}" in last.user for part in parts)
    assert "At most 70 words." in last.user
    assert result["coverage"]["pages"] == "1-5"
    assert hold.progress == Progress(done=5, total=5, unit="page")


async def test_a_long_job_makes_room_between_two_questions_and_pays_for_none_twice(rig: Rig) -> None:
    def noting(question: Question) -> str:
        return says(summary=f"note on {pages_of(question)}")

    desk = LlmDesk(rig=rig, llm=Scripted(rule=noting, context_tokens=SHORT_CONTEXT))
    document = await desk.document(*LONG)
    job = await desk.job(document, "summarize")
    for asked in (1, 2):
        job, _ = await desk.run(job, must_yield=True)
        assert (job.state, job.failures, len(desk.llm.asked)) == (JobState.QUEUED, 0, asked)
    job, _ = await desk.run(job)
    assert result_of(job)["usage"]["calls"] == len(desk.llm.asked)
    assert len({question.user for question in desk.llm.asked}) == len(desk.llm.asked)


async def test_notes_that_are_too_many_are_summed_up_in_groups(rig: Rig) -> None:
    def wordy(question: Question) -> str:
        return says(summary="a note that runs on " * 90 if pages_of(question) else "short")

    desk = LlmDesk(rig=rig, llm=Scripted(rule=wordy, context_tokens=SHORT_CONTEXT))
    result = result_of(await desk.ask(LONG * 3, "summarize"))
    assert result["summary"] == "short"
    assert result["usage"]["calls"] == 15 + 3 + 1


# classify


async def test_a_label_comes_with_a_reason_and_a_quote(desk: LlmDesk) -> None:
    desk.llm.script = [says(labels=["receipt"], reason="It has a total.", quotes=[{"page": 1, "quote": "Total 3.50"}])]
    result = result_of(await desk.ask(RECEIPT, "classify", labels=["invoice", "receipt"]))
    assert (result["labels"], result["reason"], result["verified"]) == (["receipt"], "It has a total.", True)
    assert result["citations"] == [{"page": 1, "words": [9, 10], "quote": "Total 3.50", "verified": True}]


@pytest.mark.parametrize("labels", [["bill"], ["invoice", "receipt"], ["Receipt"], [["receipt"]], "receipt", None])
async def test_a_label_that_was_not_given_or_one_too_many_is_no_answer(desk: LlmDesk, labels: object) -> None:
    desk.llm.script = [says(labels=labels, reason="", quotes=[])] * 2
    job = await desk.ask(RECEIPT, "classify", labels=["invoice", "receipt"])
    assert code_of(job) == "llm_invalid_output"


async def test_no_label_may_be_right(desk: LlmDesk) -> None:
    desk.llm.script = [says(labels=[], reason="Neither.", quotes=[])]
    result = result_of(await desk.ask(RECEIPT, "classify", labels=["contract", "will"]))
    assert (result["labels"], result["verified"], codes(result)) == ([], False, ["unverified"])


async def test_several_labels_are_those_of_all_parts_in_the_callers_order(rig: Rig) -> None:
    def by_page(question: Question) -> str:
        labels = ["b", "c"] if 1 in pages_of(question) else ["a"]
        return says(labels=labels, reason="so", quotes=[{"page": pages_of(question)[0], "quote": "of the book"}])

    desk = LlmDesk(rig=rig, llm=Scripted(rule=by_page, context_tokens=SHORT_CONTEXT))
    result = result_of(await desk.ask(LONG, "classify", labels=["a", "b", "c", "d"], multiple=True))
    assert (result["labels"], result["verified"]) == (["a", "b", "c"], True)
    assert [citation["page"] for citation in result["citations"]] == [1, 2, 3, 4, 5]


async def test_parts_that_differ_on_the_one_label_are_weighed(rig: Rig) -> None:
    def by_page(question: Question) -> str:
        pages = pages_of(question)
        if not pages:
            return says(labels=["a"], reason="weighed", quotes=[])
        return says(
            labels=["b"] if 1 in pages else ["a"], reason=f"for {pages}", quotes=[{"page": pages[0], "quote": "book"}]
        )

    desk = LlmDesk(rig=rig, llm=Scripted(rule=by_page, context_tokens=SHORT_CONTEXT))
    result = result_of(await desk.ask(LONG, "classify", labels=["a", "b", "c"]))
    assert (result["labels"], result["reason"]) == (["a"], "weighed")
    assert [citation["page"] for citation in result["citations"]] == [2, 3, 4, 5]
    schema: Any = desk.llm.asked[-1].schema
    assert schema["properties"]["labels"]["items"] == {"enum": ["a", "b"]}


async def test_parts_that_agree_need_no_weighing(rig: Rig) -> None:
    def same(question: Question) -> str:
        return says(labels=["a"], reason="so", quotes=[{"page": pages_of(question)[0], "quote": "book"}])

    desk = LlmDesk(rig=rig, llm=Scripted(rule=same, context_tokens=SHORT_CONTEXT))
    result = result_of(await desk.ask(LONG, "classify", labels=["a", "b"]))
    assert (result["labels"], result["usage"]["calls"]) == (["a"], 5)


# ask


async def test_an_answer_comes_with_the_places_that_say_so(desk: LlmDesk) -> None:
    desk.llm.script = [says(found=True, answer="3.50 EUR", quotes=[{"page": 1, "quote": "Total 3.50 EUR"}])]
    result = result_of(await desk.ask(RECEIPT, "ask", question="What was the total?"))
    assert (result["found"], result["answer"], result["verified"], result["warnings"]) == (True, "3.50 EUR", True, [])
    assert result["citations"] == [{"page": 1, "words": [9, 10, 11], "quote": "Total 3.50 EUR", "verified": True}]


@pytest.mark.parametrize("quote", [{"page": 1, "quote": "Total 0.00"}, {"page": 9, "quote": "Total 3.50 EUR"}])
async def test_an_answer_whose_quotes_are_made_up_is_unverified(desk: LlmDesk, quote: dict[str, object]) -> None:
    real = {"page": 1, "quote": "Total 3.50 EUR"}
    desk.llm.script = [says(found=True, answer="0 EUR", quotes=[real, quote])]
    result = result_of(await desk.ask(RECEIPT, "ask", question="What was the total?"))
    assert (result["verified"], codes(result)) == (False, ["unverified"])
    assert [citation["verified"] for citation in result["citations"]] == [True, False]


@pytest.mark.parametrize(
    "answer",
    [
        says(found=True, answer=None, quotes=[{"page": 1, "quote": "Total"}]),
        says(found=True, answer="", quotes=[{"page": 1, "quote": "Total"}]),
        says(found=True, answer="3.50", quotes=[]),
    ],
)
async def test_an_answer_without_reasons_or_words_is_none(desk: LlmDesk, answer: str) -> None:
    desk.llm.script = [answer, answer]
    assert code_of(await desk.ask(RECEIPT, "ask", question="What was the total?")) == "llm_invalid_output"


async def test_what_is_not_in_the_document_is_said_to_be_so(desk: LlmDesk) -> None:
    desk.llm.script = [says(found=False, answer=None, quotes=[])]
    result = result_of(await desk.ask(RECEIPT, "ask", question="Who was the cashier?"))
    assert (result["found"], result["answer"], result["citations"]) == (False, None, [])
    assert result["warnings"] == []


async def test_the_telling_pages_of_a_long_document_are_read_first(rig: Rig) -> None:
    pages = [*LONG, f"The notice period is three months.\n{FILLER}", *LONG]

    def answering(question: Question) -> str:
        if "notice period is" in question.user:
            return says(found=True, answer="three months", quotes=[{"page": 6, "quote": "three months"}])
        return says(found=False, answer=None, quotes=[])

    desk = LlmDesk(rig=rig, llm=Scripted(rule=answering, context_tokens=SHORT_CONTEXT))
    result = result_of(await desk.ask(pages, "ask", question="How long is the notice period?"))
    assert (result["answer"], result["verified"], result["usage"]["calls"]) == ("three months", True, 1)
    assert result["coverage"] == {"pages": "6", "read": 1, "total": 11}
    assert codes(result) == ["pages_not_read"]
    assert result["warnings"][0]["pages"] == "1-5,7-11"


async def test_reading_goes_on_where_the_first_pages_do_not_tell_and_ends_some_time(rig: Rig) -> None:
    nothing = says(found=False, answer=None, quotes=[])
    desk = LlmDesk(rig=rig, llm=Scripted(rule=lambda _: nothing, context_tokens=SHORT_CONTEXT))
    result = result_of(await desk.ask(LONG * 2, "ask", question="Who?"))
    assert (result["found"], result["usage"]["calls"]) == (False, 4)
    assert result["coverage"]["read"] == 4
    assert codes(result) == ["pages_not_read"]


async def test_pages_that_prove_too_long_are_asked_about_in_halves(rig: Rig) -> None:
    def strict(question: Question) -> str | Exception:
        if len(pages_of(question)) > 2:
            return LlmContextExceeded("too long")
        if 4 in pages_of(question):
            return says(found=True, answer="four", quotes=[{"page": 4, "quote": "Chapter 4"}])
        return says(found=False, answer=None, quotes=[])

    desk = LlmDesk(rig=rig, llm=Scripted(rule=strict, context_tokens=100_000))
    result = result_of(await desk.ask(LONG[:4], "ask", question="Which?"))
    assert (result["answer"], result["verified"]) == ("four", True)
    assert result["coverage"]["pages"] == "1-4"
