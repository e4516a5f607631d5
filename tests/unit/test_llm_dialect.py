"""What a server does not understand is left out, in one step each, and is not tried again with every question."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from app.adapters.llm import dialect
from app.adapters.llm.dialect import AnswerFormat, Capabilities, DialectCache, is_strict
from app.adapters.llm.failures import StatusFault, error_response
from app.ports.llm import LlmContextExceeded, LlmRejected
from tests.support.llm_asking import LIKE_IT, SCHEMA, Asking, asking
from tests.unit.test_rates import Clock

OPEN = {"type": "object", "properties": {"total": {"type": "number"}}}
"""Not closed: nothing for the strict mode."""


@pytest.fixture
async def llm() -> AsyncIterator[Asking]:
    async with asking() as llm:
        yield llm


def forms(llm: Asking) -> list[str | None]:
    """Of all requests so far."""
    return [form(asked.body) for asked in llm.server.log]


def form(body: dict[str, Any]) -> str | None:
    asked = body.get("response_format", {})
    return "strict" if asked.get("json_schema", {}).get("strict") else asked.get("type")


@pytest.mark.parametrize(
    ("refused", "requests"),
    [
        ("stream_options", 2),
        ("max_tokens", 2),
        ("temperature", 2),
        ("json_schema", 3),
        ("strict,json_schema", 3),
        ("json_schema,json_object", 4),
        ("stream_options,max_tokens,temperature,strict,json_schema,json_object", 7),
    ],
)
async def test_what_is_refused_is_left_out_and_remembered(llm: Asking, refused: str, requests: int) -> None:
    llm.server.default = f"refuses:{refused}"
    assert json.loads((await llm.ask()).text) == json.loads(LIKE_IT)
    assert len(llm.server.log) == requests
    assert json.loads((await llm.ask()).text) == json.loads(LIKE_IT)
    # Strictness is the schema's affair, and tried with each.
    assert len(llm.server.log) in {requests + 1, requests + 2}
    await llm.ask(schema=OPEN)
    assert llm.server.outcomes[-1] == "answered"


async def test_the_limit_is_always_sent(llm: Asking) -> None:
    llm.server.default = "refuses:max_tokens"
    await llm.ask()
    first, second = (asked.body for asked in llm.server.log)
    assert first["max_tokens"] == 500
    assert second["max_completion_tokens"] == 500
    assert "max_tokens" not in second


async def test_a_schema_that_is_too_much_costs_no_other_schema_its_form(llm: Asking) -> None:
    llm.server.default = "refuses:strict"
    await llm.ask()
    await llm.ask()
    assert forms(llm) == ["strict", "json_schema", "strict", "json_schema"]


async def test_a_form_that_is_not_known_is_not_tried_again(llm: Asking) -> None:
    llm.server.default = "refuses:strict,json_schema"
    # In the words of a server that knows no such type, not of one that dislikes the schema.
    for _ in range(2):
        await llm.ask(schema=OPEN)
    assert forms(llm) == ["json_schema", "json_object", "json_object"]


async def test_without_any_form_the_prompt_still_says_what_is_wanted(llm: Asking) -> None:
    llm.server.default = "refuses:strict,json_schema,json_object"
    await llm.ask()
    last = llm.server.log[-1]
    assert "response_format" not in last.body
    assert last.prompt.schema == SCHEMA
    assert last.prompt.system.startswith("Do as you are asked.")


async def test_a_refusal_that_names_nothing_of_it_is_final(llm: Asking) -> None:
    llm.server.default = 'status:400 {"error": {"message": "the model is called otherwise", "param": "model"}}'
    with pytest.raises(LlmRejected):
        await llm.ask()
    assert len(llm.server.log) == 1


async def test_a_question_that_is_too_long_is_no_question_of_form(llm: Asking) -> None:
    llm.server.default = "too_long:vllm"
    with pytest.raises(LlmContextExceeded):
        await llm.ask()
    assert len(llm.server.log) == 1


async def test_a_server_that_refuses_whatever_is_left_is_given_up_after_seven_requests(llm: Asking) -> None:
    everything = "stream_options max_completion_tokens temperature response_format"
    llm.server.default = f'status:400 {{"error": {{"message": "not understood: {everything}"}}}}'
    with pytest.raises(LlmRejected):
        await llm.ask()
    assert len(llm.server.log) == 7


def test_after_an_hour_the_whole_is_tried_again() -> None:
    clock = Clock()
    dialects = DialectCache(clock=clock)
    poor = replace(Capabilities(), counts=False, form=AnswerFormat.JSON)
    dialects.note(poor, StatusFault(400, "stream_options"))
    clock.now += dialect.KEPT - 1
    assert dialects.current() == poor
    clock.now += 1
    assert dialects.current() == Capabilities()


def test_what_a_validator_quotes_of_the_question_is_not_read() -> None:
    body = {"detail": [{"loc": ["body", "top_k"], "msg": "wrong", "input": "temperature, context length, json_schema"}]}
    found = error_response(422, {}, json.dumps(body).encode())
    assert Capabilities().simpler(found, SCHEMA) is None


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (SCHEMA, True),
        (OPEN, False),
        (SCHEMA | {"required": ["total"]}, False),
        ({"type": "array", "items": SCHEMA}, True),
        ({"type": "array", "items": OPEN}, False),
        ({"anyOf": [SCHEMA, {"type": "null"}]}, True),
        ({"anyOf": [SCHEMA, OPEN]}, False),
        ({"$defs": {"a": OPEN}, "$ref": "#/$defs/a"}, False),
        ({"type": "string"}, True),
        ({"properties": 1, "required": 1}, False),
    ],
)
def test_only_a_closed_schema_is_strict(schema: object, strict: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_strict(schema) is strict
