"""Whatever a model says, a job ends within its budget, done with what is valid or failed with a code."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from app.domain.jobs import JobState
from app.handlers.llm.conversation import LlmBudget
from app.ports.llm import LlmContextExceeded, LlmRefused, LlmTruncated, Question
from tests.support.rig import memory_rig
from tests.support.scripted_llm import Scripted, says
from tests.unit.llm_desk import RECEIPT, LlmDesk

SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "number"}, "lines": {"type": "array", "items": {"type": "string"}}},
    "required": ["total"],
    "additionalProperties": False,
}
KINDS: dict[str, dict[str, Any]] = {
    "summarize": {"max_words": 20},
    "extract": {"schema": SCHEMA},
    "classify": {"labels": ["invoice", "receipt"]},
    "ask": {"question": "What was the total?"},
}
CODES = {"llm_invalid_output", "llm_refused", "llm_context_exceeded"}
BUDGET = LlmBudget(calls=12, tokens=60_000)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
pages = st.integers(-1, 4)
quotes = st.lists(st.fixed_dictionaries({"page": pages, "quote": st.text()}), max_size=3)
near_misses = st.one_of(
    st.fixed_dictionaries({"summary": st.text() | json_values}),
    st.fixed_dictionaries(
        {
            "data": st.fixed_dictionaries(
                {"total": json_values}, optional={"lines": st.lists(st.text()) | json_values}
            ),
            "sources": st.lists(
                st.fixed_dictionaries(
                    {"pointer": st.sampled_from(["", "/total", "/x"]), "page": pages, "quote": st.text()}
                )
            ),
        }
    ),
    st.fixed_dictionaries(
        {"labels": st.lists(st.sampled_from(["invoice", "x"])), "reason": st.text(), "quotes": quotes}
    ),
    st.fixed_dictionaries({"found": st.booleans(), "answer": st.none() | st.text(), "quotes": quotes}),
)
texts = st.one_of(
    st.text(), (json_values | near_misses).map(json.dumps), near_misses.map(lambda v: f"```\n{json.dumps(v)}\n```")
)
answers = st.one_of(
    texts,
    texts,
    st.builds(lambda text, at: text[: int(len(text) * at)], texts, st.floats(0, 1)),
    st.just("again and again " * 5_000),
    st.sampled_from([LlmTruncated("cut"), LlmRefused("no"), LlmContextExceeded("too long")]),
)


@pytest.mark.parametrize("kind", KINDS)
@given(said=st.lists(answers, min_size=1, max_size=12), context=st.sampled_from([2_500, 8_192]))
def test_every_answer_ends_in_a_valid_result_or_a_code(kind: str, said: list[str | Exception], context: int) -> None:
    replies = iter(said * 12)
    desk = LlmDesk(rig=memory_rig(), llm=Scripted(rule=lambda _: next(replies), context_tokens=context), budget=BUDGET)
    job = asyncio.run(desk.ask([RECEIPT, "filler " * 400, RECEIPT], kind, **KINDS[kind]))
    assert len(desk.llm.asked) <= BUDGET.calls
    assert desk.llm.spent <= BUDGET.tokens
    if job.state is JobState.FAILED:
        assert job.error is not None
        assert job.error.code in CODES
        assert job.result is None
        return
    assert job.state is JobState.DONE
    assert isinstance(job.result, dict)
    assert job.result["coverage"]["read"] == 3
    check = {"summarize": _is_a_summary, "extract": _fits, "classify": _has_labels, "ask": _is_an_answer}[kind]
    check(job.result)


@given(rows=st.integers(1, 120), cut=st.booleans())
def test_a_list_is_whole_or_the_job_has_failed(rows: int, cut: bool) -> None:  # noqa: FBT001 - hypothesis gives it by name
    lines = [f"row{number}" for number in range(rows)]

    def listing(question: Question) -> str:
        shown = [line for line in question.user.split() if line.startswith("row")]
        text = says(data={"total": 1, "lines": shown}, sources=[])
        return text[:-3] if cut and len(shown) > 30 else text

    desk = LlmDesk(rig=memory_rig(), llm=Scripted(rule=listing, context_tokens=2_500), budget=BUDGET)
    texts = ["\n".join(lines[at : at + 20]) for at in range(0, rows, 20)]
    job = asyncio.run(desk.ask(texts, "extract", schema=SCHEMA))
    if job.state is JobState.DONE:
        assert isinstance(job.result, dict)
        assert job.result["data"]["lines"] == lines
    else:
        assert job.error is not None
        assert job.error.code in CODES


def _is_a_summary(result: dict[str, Any]) -> None:
    assert result["summary"]


def _fits(result: dict[str, Any]) -> None:
    assert Draft202012Validator(SCHEMA).is_valid(result["data"])
    assert set(result["unverified"]) <= set(result["citations"])
    assert "/total" in result["citations"]
    assert result["verified"] == all(citation["verified"] for citation in result["citations"].values())


def _has_labels(result: dict[str, Any]) -> None:
    assert result["labels"] in ([], ["invoice"], ["receipt"])


def _is_an_answer(result: dict[str, Any]) -> None:
    assert result["found"] == bool(result["answer"]) == bool(result["citations"])
