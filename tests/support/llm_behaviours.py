"""What the test server can do, by name, and its answers, right and wrong. `slow:3` is `slow` with the argument 3.

Each gets an Exchange and says what it likes on the line; returning without an end breaks off.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from app.domain.llm.token_estimate import estimate_tokens
from tests.support.llm_answers import good_answer, obedient_answer

if TYPE_CHECKING:
    from tests.support.llm_server import Exchange

Behaviour = Callable[["Exchange", str], Awaitable[None]]

BEHAVIOURS: dict[str, Behaviour] = {}


async def behave(exchange: "Exchange", named: str) -> None:
    name, _, argument = named.partition(":")
    await BEHAVIOURS[name](exchange, argument)


def check(*named: str) -> None:
    """A name that is none is a mistake of the test's."""
    if unknown := {each.partition(":")[0] for each in named} - set(BEHAVIOURS):
        raise ValueError(f"no behaviour: {', '.join(sorted(unknown))}")


def behaviour(name: str) -> Callable[[Behaviour], Behaviour]:
    def keep(function: Behaviour) -> Behaviour:
        BEHAVIOURS[name] = function
        return function

    return keep


def usage(exchange: "Exchange", text: str) -> dict[str, int]:
    read, written = estimate_tokens(exchange.asked.prompt.text), estimate_tokens(text)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def chunk(finish: str | None = None, **delta: object) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "test", "choices": [choice]}


async def say(
    exchange: "Exchange",
    text: str | None,
    *,
    finish: str = "stop",
    counted: dict[str, Any] | None = None,
    **delta: object,
) -> None:
    """A whole answer, as a stream or at once as the request wants it. `counted`: another usage; empty: none."""
    counted = usage(exchange, text or "") if counted is None else counted
    if not exchange.asked.body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text, **delta}, "finish_reason": finish}
        await exchange.respond(200, {"object": "chat.completion", "choices": [choice], "usage": counted})
        return
    await exchange.begin()
    await exchange.event(chunk(role="assistant", content=""))
    for start in range(0, len(text or ""), 24):
        await exchange.event(chunk(content=(text or "")[start : start + 24]))
    await exchange.event(chunk(finish, **delta))
    if counted and exchange.asked.body.get("stream_options"):
        await exchange.event({"choices": [], "usage": counted})
    await exchange.event("[DONE]")
    await exchange.end()


def good(exchange: "Exchange") -> str:
    return good_answer(exchange.asked.prompt)


# Answers that are right.


@behaviour("good")
async def _good(exchange: "Exchange", _: str) -> None:
    await say(exchange, good(exchange))


@behaviour("slow")
async def _slow(exchange: "Exchange", seconds: str) -> None:
    await asyncio.sleep(float(seconds))
    await say(exchange, good(exchange))


@behaviour("text")
async def _text(exchange: "Exchange", text: str) -> None:
    """Word for word."""
    await say(exchange, text)


@behaviour("obedient")
async def _obedient(exchange: "Exchange", _: str) -> None:
    await say(exchange, obedient_answer(exchange.asked.prompt))


@behaviour("no_stream")
async def _no_stream(exchange: "Exchange", _: str) -> None:
    """One JSON object, though a stream was asked for."""
    exchange.asked.body["stream"] = False
    await say(exchange, good(exchange))


@behaviour("no_usage")
async def _no_usage(exchange: "Exchange", _: str) -> None:
    await say(exchange, good(exchange), counted={})


@behaviour("usage")
async def _usage(exchange: "Exchange", counted: str) -> None:
    """With this usage, as JSON."""
    await say(exchange, good(exchange), counted=json.loads(counted))


@behaviour("thoughts")
async def _thoughts(exchange: "Exchange", _: str) -> None:
    await say(exchange, f"<think>Let me see. {{}}</think>\n\n{good(exchange)}")


@behaviour("broken_end")
async def _broken_end(exchange: "Exchange", _: str) -> None:
    """All of the answer; then the connection breaks."""
    await exchange.begin()
    await exchange.event(chunk(content=good(exchange)))
    await exchange.event(chunk("stop"))


@behaviour("no_end")
async def _no_end(exchange: "Exchange", _: str) -> None:
    """All of the answer; then nothing, not even the end of the stream."""
    await exchange.begin()
    await exchange.event(chunk(content=good(exchange)))
    await exchange.event(chunk("stop"))
    await exchange.until_left()


# Answers that are wrong.


@behaviour("fenced")
async def _fenced(exchange: "Exchange", _: str) -> None:
    await say(exchange, f"```json\n{good(exchange)}\n```")


@behaviour("prose")
async def _prose(exchange: "Exchange", _: str) -> None:
    await say(exchange, f"Sure! Here is what I found:\n\n{good(exchange)}\n\nLet me know if you need more.")


@behaviour("trailing_comma")
async def _trailing_comma(exchange: "Exchange", _: str) -> None:
    text = good(exchange)
    await say(exchange, f"{text[:-1]},{text[-1]}")


@behaviour("duplicate_keys")
async def _duplicate_keys(exchange: "Exchange", _: str) -> None:
    text = good(exchange)
    await say(exchange, f"{text[:-1]}, {text[1:]}")


def _object(exchange: "Exchange") -> dict[str, Any]:
    if exchange.asked.prompt.schema is None:
        return {"text": good(exchange)}
    found: dict[str, Any] = json.loads(good(exchange))
    return found


def _spoilt(exchange: "Exchange", value: object) -> str:
    """With each value of the outermost object replaced."""
    return json.dumps(dict.fromkeys(_object(exchange), value))


@behaviour("nan")
async def _nan(exchange: "Exchange", _: str) -> None:
    await say(exchange, _spoilt(exchange, float("nan")))


@behaviour("nul")
async def _nul(exchange: "Exchange", _: str) -> None:
    """As a character, and escaped in the JSON."""
    await say(exchange, _spoilt(exchange, "a\0b") + "\0")


@behaviour("surrogates")
async def _surrogates(exchange: "Exchange", _: str) -> None:
    """As characters, and escaped in the JSON."""
    await say(exchange, _spoilt(exchange, "a\ud800b\udc00") + "\ud800")


@behaviour("wrong_types")
async def _wrong_types(exchange: "Exchange", _: str) -> None:
    await say(exchange, _spoilt(exchange, [[1, None]]))


@behaviour("extra_keys")
async def _extra_keys(exchange: "Exchange", _: str) -> None:
    await say(exchange, json.dumps(_object(exchange) | {"surprise": "extra"}))


@behaviour("invalid")
async def _invalid(exchange: "Exchange", _: str) -> None:
    await say(exchange, "I am not able to write JSON, whatever you do")


@behaviour("length")
async def _length(exchange: "Exchange", _: str) -> None:
    text = good(exchange)
    await say(exchange, text[: len(text) // 2], finish="length")


@behaviour("null_length")
async def _null_length(exchange: "Exchange", _: str) -> None:
    """A reasoning model that has used all of its tokens for thinking."""
    await say(exchange, None, finish="length", content=None, reasoning_content="Hmm. " * 3)


@behaviour("refusal")
async def _refusal(exchange: "Exchange", _: str) -> None:
    await say(exchange, None, refusal="I'm sorry, I can't help with that.")


@behaviour("finish")
async def _finish(exchange: "Exchange", reason: str) -> None:
    """With this finish_reason, such as `content_filter`."""
    await say(exchange, good(exchange), finish=reason)


@behaviour("endless")
async def _endless(exchange: "Exchange", passage: str) -> None:
    await exchange.begin()
    while True:
        await exchange.event(chunk(content=passage or "The total is 12.50. "))
        await asyncio.sleep(0)


@behaviour("babble")
async def _babble(exchange: "Exchange", field: str) -> None:
    """For ever, and never the same: max_tokens is not heeded."""
    await exchange.begin()
    number = 0
    while True:
        number += 1
        await exchange.event(chunk(**{field or "content": f"Line {number} of {number**3}. "}))
        await asyncio.sleep(0)
