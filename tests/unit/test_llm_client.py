"""Every answer and failure of a language-model server, over real HTTP: what it comes to, after how many requests."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from app.adapters.llm.client import endpoint
from app.domain.errors import Unavailable
from app.ports.llm import (
    Answer,
    LlmBusy,
    LlmContextExceeded,
    LlmRefused,
    LlmRejected,
    LlmTruncated,
)
from tests.support.llm_asking import HURRIED, INVOICE, KEY, LIKE_IT, Asking, asking, client_of, question
from tests.support.llm_server import llm_server
from tests.support.llm_troubles import TOO_LONG
from tests.unit.waiting import until

HURRY = 10
"""Seconds: half of what a server may be silent for."""

LONG = "The quick brown fox jumps over the lazy dog. " * 200


@pytest.fixture
async def llm() -> AsyncIterator[Asking]:
    async with asking() as llm:
        yield llm


@pytest.mark.parametrize("behaviour", ["good", "no_stream", "no_usage", "thoughts"])
async def test_a_good_answer_is_whole_and_has_its_usage(llm: Asking, behaviour: str) -> None:
    llm.server.script(behaviour)
    answer = await llm.ask()
    assert json.loads(answer.text) == json.loads(LIKE_IT)
    assert answer.usage.input_tokens > 50
    assert 0 < answer.usage.output_tokens < 100
    assert llm.server.outcomes == ["answered"]


async def test_a_question_is_asked_as_the_protocol_has_it(llm: Asking) -> None:
    await llm.ask()
    (asked,) = llm.server.log
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["model"] == "test"
    assert asked.body["stream"] is True
    assert asked.body["max_tokens"] == 500
    assert asked.body["temperature"] == 0
    assert [message["role"] for message in asked.body["messages"]] == ["system", "user"]
    assert asked.body["messages"][1]["content"] == INVOICE
    assert asked.body["response_format"]["json_schema"]["strict"] is True


async def test_prose_is_asked_for_without_a_form(llm: Asking) -> None:
    answer = await llm.ask(schema=None)
    assert answer.text.startswith("In short: ")
    assert "response_format" not in llm.server.log[0].body
    assert llm.server.log[0].prompt.system == "Do as you are asked."


async def test_usage_is_the_servers_and_is_counted_once(llm: Asking) -> None:
    llm.server.script('usage:{"prompt_tokens": 321, "completion_tokens": 12}')
    usage = (await llm.ask()).usage
    assert (usage.input_tokens, usage.output_tokens) == (321, 12)
    assert llm.counted("daira_llm_tokens_total", direction="input") == 321
    assert llm.counted("daira_llm_tokens_total", direction="output") == 12
    assert llm.counted("daira_llm_seconds_count", outcome="answered") == 1


@pytest.mark.parametrize(
    "usage", [{}, {"prompt_tokens": -1, "completion_tokens": 1}, {"prompt_tokens": True}, {"prompt_tokens": "9"}]
)
async def test_usage_that_makes_no_sense_is_estimated(llm: Asking, usage: object) -> None:
    llm.server.script(f"usage:{json.dumps(usage)}")
    assert (await llm.ask()).usage.input_tokens > 50


async def test_an_answer_that_is_whole_is_one_however_the_connection_ends(llm: Asking) -> None:
    llm.server.script("broken_end")
    assert json.loads((await llm.ask()).text) == json.loads(LIKE_IT)
    assert llm.server.outcomes == ["broken"]


async def test_an_answer_whose_stream_does_not_end_is_taken_as_it_is(
    llm: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.adapters.llm.stream.TAIL", 0.05)
    llm.server.script("no_end")
    started = time.monotonic()
    assert json.loads((await llm.ask()).text) == json.loads(LIKE_IT)
    assert time.monotonic() - started < HURRY
    await until(lambda: llm.server.outcomes == ["left"])


@pytest.mark.parametrize("behaviour", ["length", "null_length", "finish:max_tokens"])
async def test_an_answer_that_reached_its_limit_is_none(llm: Asking, behaviour: str) -> None:
    llm.server.script(behaviour)
    with pytest.raises(LlmTruncated) as truncated:
        await llm.ask()
    assert truncated.value.usage.input_tokens > 50
    assert llm.counted("daira_llm_tokens_total", direction="input") == truncated.value.usage.input_tokens
    assert len(llm.server.log) == 1


@pytest.mark.parametrize(
    "behaviour",
    [
        "refusal",
        "finish:content_filter",
        "finish:SAFETY",
        'status:400 {"error": {"message": "The response was filtered", "code": "content_filter"}}',
        'error_in_stream:{"message": "…", "innererror": {}, "code": "content_filter"}',
    ],
)
async def test_a_refusal_is_told_as_one_and_not_asked_again(llm: Asking, behaviour: str) -> None:
    llm.server.script(behaviour)
    with pytest.raises(LlmRefused) as refused:
        await llm.ask()
    assert "sorry" not in str(refused.value)
    assert len(llm.server.log) == 1


@pytest.mark.parametrize("passage", ["", "a", "\n", " \t", "a passage of some length that comes again and again, " * 8])
async def test_a_model_that_runs_in_circles_is_cut_off(llm: Asking, passage: str) -> None:
    llm.server.script(f"endless:{passage}")
    with pytest.raises(LlmTruncated, match="without end") as cut:
        await llm.ask(max_output_tokens=4000)
    await until(lambda: llm.server.outcomes == ["left"])
    assert 500 <= cut.value.usage.output_tokens <= 4000
    assert len(llm.server.log) == 1


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
async def test_a_server_that_does_not_heed_the_limit_is_cut_off(llm: Asking, field: str) -> None:
    llm.server.script(f"babble:{field}")
    with pytest.raises(LlmTruncated):
        await llm.ask(max_output_tokens=100)
    await until(lambda: llm.server.outcomes == ["left"])


@pytest.mark.parametrize("server", TOO_LONG)
async def test_a_question_that_is_too_long_is_told_in_every_servers_words(llm: Asking, server: str) -> None:
    llm.server.script(f"too_long:{server}")
    with pytest.raises(LlmContextExceeded, match="too long for the language model"):
        await llm.ask()
    llm.server.script(f"error_in_stream:{json.dumps(TOO_LONG[server][1])}")
    with pytest.raises(LlmContextExceeded):
        await llm.ask()
    assert len(llm.server.log) == 2


async def test_a_question_that_was_cut_in_silence_is_noticed(llm: Asking) -> None:
    llm.server.script("cuts:1024")
    with pytest.raises(LlmContextExceeded, match="has read 1024 tokens") as exceeded:
        await llm.ask(user=LONG)
    assert exceeded.value.usage.input_tokens == 1024
    llm.server.script("cuts:8192")
    assert isinstance(await llm.ask(user=LONG), Answer)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 0, "completion_tokens": 9},
        {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 2000}},
    ],
    ids=["not counted", "cached"],
)
async def test_a_server_that_leaves_out_what_it_had_read_before_has_cut_nothing(llm: Asking, usage: object) -> None:
    llm.server.script(f"usage:{json.dumps(usage)}")
    assert isinstance(await llm.ask(user=LONG), Answer)


async def test_a_question_beyond_the_context_is_not_asked(llm: Asking) -> None:
    with pytest.raises(LlmContextExceeded, match="the language model takes 8192"):
        await llm.ask(user=LONG * 5)
    assert llm.server.log == []


@pytest.mark.parametrize("behaviour", ["hang", "hang_midway", "drip"])
async def test_who_waits_for_nothing_hangs_up(behaviour: str) -> None:
    async with asking(**HURRIED) as llm:
        llm.server.script(behaviour)
        started = time.monotonic()
        with pytest.raises(Unavailable):
            await llm.ask()
        assert 0.4 < time.monotonic() - started < 10
        await until(lambda: llm.server.outcomes == ["left"])


@pytest.mark.parametrize(
    "behaviour",
    [
        "cut",
        "ends_early",
        "drop",
        "empty_choices",
        "html:200",
        "html:500",
        "html:502",
        "html:504",
        "503",
        "status:408",
        "status:409",
        "finish:abort",
        "finish:tool_calls",
        "event:[]",
        "event:{",
        'event:{"choices": [{"delta": {"refusal": "I am"}}]}',
        "event:{}",
        'event:{"choices": [{"delta": {"content": 7}, "finish_reason": "stop"}]}',
        'event:{"choices": [{"delta": [], "finish_reason": {}}]}',
        f"event:{'[' * 5000}",
        'error_in_stream:{"message": "the slot died", "code": 500}',
        'error_in_stream:"what"',
        "raw:00ff",
    ],
)
async def test_an_outage_is_worth_a_retry_and_half_an_answer_is_none(llm: Asking, behaviour: str) -> None:
    llm.server.script(behaviour)
    with pytest.raises(Unavailable):
        await llm.ask()
    assert len(llm.server.log) == 1
    await until(lambda: llm.server.active == 0)
    assert isinstance(await llm.ask(), Answer)
    assert llm.counted("daira_llm_seconds_count", outcome="unavailable") == 1


async def test_a_server_that_is_not_there_is_an_outage() -> None:
    async with llm_server() as server:
        pass
    async with client_of(server.url) as (client, _, _):
        with pytest.raises(Unavailable, match="can't be reached"):
            await client.ask(question())


@pytest.mark.parametrize(
    ("behaviour", "seconds"),
    [
        ("429:7", 7),
        ("429:2.5", 2.5),
        ("429_date:30", 30),
        ("429_ms:1500", 1.5),
        ("429_body:7.934s", 7.934),
        ("429_body:1m30s", 90),
        ("503:12", 12),
        ("429:0", 1),
        ("429:-5", 1),
        ("429:86400", 600),
        ("429:nan", 2),
        ("429:soon", 2),
        ("429", 2),
        ('error_in_stream:{"message": "slow down", "code": 429}', 2),
    ],
)
async def test_a_server_that_is_busy_says_for_how_long(llm: Asking, behaviour: str, seconds: float) -> None:
    llm.server.script(behaviour)
    with pytest.raises(LlmBusy) as busy:
        await llm.ask()
    assert busy.value.after.total_seconds() == pytest.approx(seconds, abs=1.1 if "date" in behaviour else 0.01)
    assert len(llm.server.log) == 1


NO_CREDIT = 'status:429 {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'


@pytest.mark.parametrize(
    ("behaviour", "advice"),
    [
        ("status:401", "check DAIRA_LLM_API_KEY"),
        ("status:402", "no credit left"),
        (NO_CREDIT, "no credit left"),
        ("status:403", "check DAIRA_LLM_API_KEY"),
        ("status:404", "check DAIRA_LLM_MODEL"),
        ("status:405", "check DAIRA_LLM_MODEL and DAIRA_LLM_BASE_URL"),
        ("status:301", "set DAIRA_LLM_BASE_URL to the final address"),
    ],
)
async def test_what_concerns_the_account_names_the_setting_to_the_operator_alone(
    llm: Asking, behaviour: str, advice: str
) -> None:
    llm.server.script(behaviour, behaviour)
    with pytest.raises(Unavailable, match="can't be used just now") as told:
        await llm.ask()
    assert "DAIRA" not in str(told.value)
    with pytest.raises(Unavailable, match=advice):
        await llm.client.probe()
    assert len(llm.server.log) == 2


@pytest.mark.parametrize("behaviour", ["503", "drop", "html:200", 'status:400 {"error": {"message": "no"}}'])
async def test_a_probe_fails_where_no_question_would_be_answered(llm: Asking, behaviour: str) -> None:
    llm.server.script(behaviour)
    with pytest.raises(Unavailable):
        await llm.client.probe()


@pytest.mark.parametrize("behaviour", ["good", "429", "refuses:temperature,max_tokens", "finish:length"])
async def test_a_probe_succeeds_where_the_server_answers_or_asks_to_wait(llm: Asking, behaviour: str) -> None:
    llm.server.default = behaviour
    await llm.client.probe()
    assert llm.server.log[0].body["max_tokens"] == 16


@pytest.mark.parametrize(
    ("behaviour", "advice"),
    [
        ('status:400 {"error": {"message": "messages: at least one"}}', "it names messages"),
        ('status:422 {"detail": [{"loc": ["body", "model"], "msg": "wrong", "input": "temperature"}]}', "names model;"),
    ],
)
async def test_a_rejection_says_which_setting_to_look_at(llm: Asking, behaviour: str, advice: str) -> None:
    llm.server.script(behaviour)
    with pytest.raises(LlmRejected, match=advice):
        await llm.ask()
    assert len(llm.server.log) == 1


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        ("nul", '{"invoice_number": "ab", "total": "ab"}'),
        ("surrogates", '{"invoice_number": "ab", "total": "ab"}'),
        (r'text:{"a": "\\u0000 \ud83d\ude00 \ud83d \\\\ud800 \n"}', r'{"a": "\\u0000 \ud83d\ude00  \\\\ud800 \n"}'),
        (r'text:{"a": "\\\u0000"}', r'{"a": "\\"}'),
        ("text:{\u2028\x85\x0c😀}", "{\u2028\x85\x0c😀}"),
    ],
)
async def test_what_no_store_can_hold_is_taken_out_of_an_answer(llm: Asking, behaviour: str, text: str) -> None:
    llm.server.script(behaviour)
    assert (await llm.ask()).text == text


async def test_in_prose_an_escape_is_text(llm: Asking) -> None:
    llm.server.script(r"text:C:\u0000\users")
    assert (await llm.ask(schema=None)).text == r"C:\u0000\users"


@pytest.mark.parametrize(
    "behaviour", ["fenced", "prose", "trailing_comma", "duplicate_keys", "nan", "wrong_types", "extra_keys", "invalid"]
)
async def test_what_an_answer_says_is_for_others_to_judge(llm: Asking, behaviour: str) -> None:
    llm.server.script(behaviour)
    assert (await llm.ask()).text
    assert llm.server.outcomes == ["answered"]


async def test_a_question_with_characters_that_are_none_can_be_asked(llm: Asking) -> None:
    await llm.ask(user="a\ud800b\0c", schema={"type": "object", "title": "\udc00"})
    assert llm.server.log[0].prompt.user == "abc"


async def test_no_more_questions_are_under_way_than_there_are_slots(llm: Asking) -> None:
    llm.server.default = "slow:0.05"
    answers = await asyncio.gather(*(llm.ask() for _ in range(12)))
    assert len(answers) == 12
    assert llm.server.most == 4


async def test_a_cancelled_question_hangs_up_and_frees_its_slot(llm: Asking) -> None:
    llm.server.default = "hang"
    asked = [asyncio.create_task(llm.ask()) for _ in range(4)]
    await until(lambda: len(llm.server.log) == 4)
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    await until(lambda: llm.server.outcomes == ["left"] * 4)
    llm.server.default = "good"
    assert len(await asyncio.gather(*(llm.ask() for _ in range(8)))) == 8
    assert llm.counted("daira_llm_seconds_count", outcome="cancelled") == 4


async def test_azure_gets_its_key_and_its_version() -> None:
    async with llm_server() as server:
        base = server.url.replace("/v1", "/openai/deployments/small?api-version=2024-10-21")
        async with client_of(base) as (client, _, _):
            await client.ask(question())
    (asked,) = server.log
    assert asked.path == "/openai/deployments/small/chat/completions?api-version=2024-10-21"
    assert asked.headers["api-key"] == KEY
    assert "authorization" not in asked.headers


async def test_without_a_key_none_is_sent() -> None:
    async with llm_server() as server, client_of(server.url, api_key="") as (client, _, _):
        await client.ask(question())
    assert not {"authorization", "api-key"} & set(server.log[0].headers)


async def test_a_question_to_this_machine_takes_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with llm_server() as server:
        async with client_of(server.url) as (client, _, _):
            assert isinstance(await client.ask(question()), Answer)
        async with client_of("http://llm.test/v1") as (client, _, _):
            with pytest.raises(Unavailable, match="can't be reached"):
                await client.ask(question())


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("http://[::1]:11434/v1/", "http://[::1]:11434/v1/chat/completions"),
        ("https://x.test", "https://x.test/chat/completions"),
        ("https://x.test/v1/chat/completions", "https://x.test/v1/chat/completions"),
        ("https://x.test/a/?api-version=1", "https://x.test/a/chat/completions?api-version=1"),
    ],
)
def test_questions_go_to_the_address_below_the_base(base_url: str, url: str) -> None:
    assert endpoint(base_url) == url
