"""An outage parks the lane: after a few failures the server is left alone, one question tries, and jobs pay nothing."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.adapters.llm.circuit_breaker import FIRST_REST, LONGEST_REST, OUTAGES, CircuitBreaker
from app.adapters.llm.failures import ConnectFault, EndpointThrottled, ResponseFault
from app.domain.errors import Unavailable
from app.ports.llm import Answer, LlmBusy, LlmRejected
from tests.support.llm_asking import Asking, asking, client_of, question
from tests.support.llm_server import llm_server
from tests.unit.test_rates import Clock
from tests.unit.waiting import until


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def llm(clock: Clock) -> AsyncIterator[Asking]:
    async with asking(gate=CircuitBreaker(clock=clock, jitter=lambda: 0.0)) as llm:
        yield llm


def ask(gate: CircuitBreaker, error: Exception | None = None) -> Exception | None:
    """What becomes of a question with which this happens."""
    try:
        with gate.passage():
            if error is not None:
                raise error
    except (LlmBusy, Unavailable, LlmRejected) as became:
        return became
    return None


async def test_after_five_outages_the_server_is_left_alone(llm: Asking) -> None:
    llm.server.default = "503"
    outcomes = [await llm.outcome() for _ in range(10)]
    assert [type(each) for each in outcomes] == [Unavailable] * 4 + [LlmBusy] * 6
    assert len(llm.server.log) == OUTAGES


async def test_after_its_rest_one_question_tries_and_opens_the_way(llm: Asking, clock: Clock) -> None:
    llm.server.script(*["503"] * OUTAGES, "slow:0.1")
    for _ in range(OUTAGES):
        await llm.outcome()
    clock.now += FIRST_REST
    outcomes = await asyncio.gather(*(llm.outcome() for _ in range(4)))
    assert sorted(type(each).__name__ for each in outcomes) == ["Answer", "LlmBusy", "LlmBusy", "LlmBusy"]
    assert len(llm.server.log) == OUTAGES + 1
    assert {type(each) for each in await asyncio.gather(*(llm.outcome() for _ in range(8)))} == {Answer}


async def test_a_question_that_tried_and_did_not_get_there_costs_its_job_nothing(llm: Asking, clock: Clock) -> None:
    llm.server.default = "503"
    for _ in range(OUTAGES):
        await llm.outcome()
    for rest in (5, 10, 20, 30, 30, 30):
        clock.now += LONGEST_REST
        busy = await llm.outcome()
        assert isinstance(busy, LlmBusy)
        assert busy.after.total_seconds() == min(rest * 2, LONGEST_REST)
    assert len(llm.server.log) == OUTAGES + 6


async def test_a_question_that_breaks_the_server_pays_for_each_time(llm: Asking, clock: Clock) -> None:
    llm.server.default = "drop"
    for _ in range(OUTAGES):
        assert isinstance(await llm.outcome(), Unavailable)
    clock.now += LONGEST_REST
    assert isinstance(await llm.outcome(), Unavailable)
    assert isinstance(await llm.outcome(), LlmBusy)


async def test_a_server_that_is_down_for_a_while_is_found_again(clock: Clock) -> None:
    gate = CircuitBreaker(clock=clock, jitter=lambda: 0.0)
    async with llm_server() as server, client_of(server.url, gate=gate) as (client, _, _):
        await client.ask(question())
        await server.stop()
        for _ in range(OUTAGES + 3):
            with pytest.raises((Unavailable, LlmBusy)):
                await client.ask(question())
        await server.start()
        clock.now += FIRST_REST
        assert isinstance(await client.ask(question()), Answer)
        assert len(server.log) == 2


async def test_a_server_that_dies_under_many_questions_costs_each_one_attempt_at_most(llm: Asking) -> None:
    llm.server.default = "hang"
    asked = [asyncio.create_task(llm.outcome()) for _ in range(40)]
    await until(lambda: len(llm.server.log) == 4)
    await llm.server.stop()
    outcomes = [type(each) for each in await asyncio.gather(*asked)]
    # Four were under way; of those that waited, all but what was missing to five outages pay nothing.
    assert outcomes.count(Unavailable) <= OUTAGES
    assert outcomes.count(LlmBusy) == 40 - outcomes.count(Unavailable)


async def test_a_wait_that_the_server_asks_for_holds_for_all(llm: Asking, clock: Clock) -> None:
    llm.server.script("429:7")
    await llm.outcome()
    clock.now += 6
    busy = await llm.outcome()
    assert isinstance(busy, LlmBusy)
    assert busy.after.total_seconds() == 1
    assert len(llm.server.log) == 1
    clock.now += 1
    assert isinstance(await llm.outcome(), Answer)


def waits(gate: CircuitBreaker, clock: Clock, answers: list[Exception | None]) -> list[float]:
    """In seconds; 0 where there was an answer. Each comes back as soon as it may."""
    found = []
    for answer in answers:
        busy = ask(gate, answer)
        found.append(busy.after.total_seconds() if isinstance(busy, LlmBusy) else 0)
        clock.now += found[-1]
    return found


def test_a_429_that_does_not_say_how_long_waits_longer_each_time(clock: Clock) -> None:
    gate = CircuitBreaker(clock=clock, jitter=lambda: 0.0)
    silent = EndpointThrottled("wait", hint=None)
    assert waits(gate, clock, [silent, silent, None, *[silent] * 8]) == [2, 4, 0, 2, 4, 8, 16, 32, 60, 60, 60]


async def test_a_429_that_does_not_say_how_long_holds_itself_alone(llm: Asking) -> None:
    llm.server.script("429", "429", "429", "good")
    outcomes = [await llm.outcome() for _ in range(4)]
    # At the same moment: the server takes so many at a time, and no more.
    assert [each.after.total_seconds() for each in outcomes if isinstance(each, LlmBusy)] == [2, 4, 4]
    assert isinstance(outcomes[-1], Answer)


@pytest.mark.parametrize(
    "alive", [None, LlmRejected("no"), Unavailable("broke off"), EndpointThrottled("wait", hint=None)]
)
def test_whatever_a_server_answers_it_is_there(clock: Clock, alive: Exception | None) -> None:
    gate = CircuitBreaker(clock=clock)
    for _ in range(OUTAGES - 1):
        ask(gate, ConnectFault("away"))
    ask(gate, alive)
    for _ in range(OUTAGES - 1):
        assert isinstance(ask(gate, ConnectFault("away")), Unavailable)
    assert isinstance(ask(gate, ConnectFault("away")), LlmBusy)


def test_a_try_that_is_cancelled_leaves_the_next_one_free_to_try(clock: Clock) -> None:
    gate = CircuitBreaker(clock=clock)
    for _ in range(OUTAGES):
        ask(gate, ResponseFault("silent"))
    clock.now += FIRST_REST
    with pytest.raises(asyncio.CancelledError), gate.passage():
        raise asyncio.CancelledError
    assert ask(gate) is None


def test_what_was_under_way_when_the_server_went_out_does_not_lengthen_its_rest(clock: Clock) -> None:
    gate = CircuitBreaker(clock=clock, jitter=lambda: 0.0)
    under_way = [gate.passage() for _ in range(16)]
    for passage in under_way:
        passage.__enter__()
    for passage in under_way:
        with pytest.raises((Unavailable, LlmBusy)):
            passage.__exit__(ConnectFault, ConnectFault("away"), None)
    clock.now += FIRST_REST
    assert ask(gate) is None


def test_waits_are_spread_and_never_shorter_than_asked_for() -> None:
    waits = []
    for part in (0.0, 0.5, 1.0):
        gate = CircuitBreaker(jitter=lambda part=part: part)  # type: ignore[misc]
        busy = ask(gate, EndpointThrottled("wait", hint=None))
        assert isinstance(busy, LlmBusy)
        waits.append(busy.after.total_seconds())
    assert waits == [2.0, 2.5, 3.0]
