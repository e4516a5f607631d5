"""Whatever a server sends, a question ends within its time in an answer that is whole, or in what the port allows."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.adapters.llm.circuit_breaker import CircuitBreaker
from app.adapters.llm.dialect import DialectCache
from app.adapters.llm.failures import StatusFault
from app.adapters.llm.stream import AnswerReader, ProtocolFault, answer_of
from app.domain.errors import Unavailable
from app.ports.llm import Answer, LlmBusy, LlmFault
from tests.support.llm_asking import SCHEMA, Asking, asking, question

PATIENCE = {"first_byte_seconds": 0.2, "total_seconds": 0.6}

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=20),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
    max_leaves=4,
)


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What belongs there, or now and then anything at all."""
    return st.integers(0, 19).flatmap(lambda number: JSONS if number == 19 else usual)


TEXT = st.text(st.characters(codec=None), max_size=40)
DELTA = st.fixed_dictionaries(
    {}, optional={"content": mostly(TEXT), "refusal": mostly(st.none()), "reasoning_content": mostly(TEXT)}
)
REASON = st.sampled_from([None, "stop", "stop", "stop", "length", "content_filter", "tool_calls"])
CHOICE = st.fixed_dictionaries(
    {"delta": mostly(DELTA)}, optional={"index": mostly(st.just(0)), "finish_reason": mostly(REASON)}
)
COUNT = mostly(st.integers(0, 10_000))
USAGE = st.fixed_dictionaries({"prompt_tokens": COUNT, "completion_tokens": COUNT})
EVENT = st.fixed_dictionaries(
    {"choices": mostly(st.lists(mostly(CHOICE), max_size=2))},
    optional={"usage": mostly(USAGE), "error": mostly(st.none())},
)
LINE = st.one_of(
    mostly(EVENT).map(lambda event: f"data: {json.dumps(event)}\n\n".encode()),
    st.sampled_from(
        [b"data: [DONE]\n\n", b": ping\n\n", b"\n", b"\r\n", b"data:\n\n", b"error: {}\n\n", b"event: x\n"]
    ),
    st.binary(max_size=30),
)
END: st.SearchStrategy[Any] = REASON.map(lambda reason: {"choices": [{"delta": {}, "finish_reason": reason}]})
LAST = END.map(lambda end: f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode())
STREAM = st.builds(lambda lines, last: b"".join(lines) + last, st.lists(LINE, max_size=6), st.just(b"") | LAST)
HEAD = st.builds(
    lambda status, kind, coding: f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{coding}\r\n".encode(),
    st.sampled_from([200] * 20 + [400, 401, 404, 408, 413, 422, 429, 500, 502, 503, 302]),
    st.sampled_from(["text/event-stream", "application/json", "text/html", ""]),
    st.sampled_from([""] * 6 + ["Content-Length: 7\r\n", "Content-Encoding: gzip\r\n", "Retry-After: 3\r\n"]),
)
GOOD = (
    b"HTTP/1.1 200 OK\r\n\r\n"
    b'data: {"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
)
WHOLE = st.builds(lambda head, body: head + body, HEAD, STREAM)
RESPONSE = st.one_of(WHOLE, WHOLE, WHOLE, st.binary(max_size=200))


def test_whatever_is_sent_a_question_comes_to_an_end() -> None:
    kinds: set[type] = set()
    with asyncio.Runner() as runner:
        asked = asking(**PATIENCE)
        llm = runner.run(asked.__aenter__())

        @example([GOOD], None)
        @given(st.lists(RESPONSE, min_size=1, max_size=7), st.sampled_from([SCHEMA, None]))
        def ends(responses: list[bytes], schema: dict[str, Any] | None) -> None:
            kinds.add(type(runner.run(comes_to_an_end(llm, responses, schema))))

        ends()
        runner.run(asked.__aexit__(None, None, None))
    assert {Answer, Unavailable} <= kinds, "all was nonsense"


async def comes_to_an_end(llm: Asking, responses: list[bytes], schema: dict[str, Any] | None) -> object:
    # As if it were the first question.
    llm.client._gate, llm.client._dialects = CircuitBreaker(), DialectCache()
    llm.server.log.clear()
    llm.server.queue.clear()
    llm.server.script(*(f"raw:{response.hex()}" for response in responses))
    llm.server.default = "hang"
    started = time.monotonic()
    outcome = await llm.outcome(schema=schema)
    assert time.monotonic() - started < 5
    assert len(llm.server.log) <= 7
    check(outcome, llm)
    return outcome


def check(outcome: object, llm: Asking) -> None:
    assert isinstance(outcome, (Answer, LlmFault, LlmBusy, Unavailable))
    if isinstance(outcome, Answer):
        assert "\0" not in outcome.text
        outcome.text.encode()
        assert outcome.usage.input_tokens >= 0
        assert b"stop" in bytes.fromhex(llm.server.log[-1].behaviour.removeprefix("raw:"))


@settings(max_examples=150)
@given(st.lists(mostly(EVENT), max_size=6))
def test_whatever_events_a_stream_has_it_is_read_or_refused(events: list[object]) -> None:
    stream = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)
    asyncio.run(judged(stream))


async def judged(stream: bytes) -> None:
    reading = AnswerReader(max_output_tokens=100)
    with suppress(ProtocolFault, StatusFault, LlmFault, Unavailable):
        await reading.take(packets(stream, 10_000))
        answer = answer_of(question(), reading)
        assert reading.finish == "stop"
        assert not reading.refused
        answer.text.encode()


@given(st.lists(LINE, min_size=1, max_size=6), st.integers(1, 40))
def test_how_a_stream_is_cut_into_packets_changes_nothing(lines: list[bytes], size: int) -> None:
    assert asyncio.run(text_of(b"".join(lines), 10_000)) == asyncio.run(text_of(b"".join(lines), size))


async def text_of(stream: bytes, size: int) -> tuple[str, str]:
    reading = AnswerReader(max_output_tokens=100)
    try:
        await reading.take(packets(stream, size))
    except (ProtocolFault, StatusFault) as error:
        return type(error).__name__, reading.text
    return repr(reading.finish), reading.text


async def packets(stream: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(stream), size):
        yield stream[start : start + size]
