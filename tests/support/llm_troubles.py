"""Where no answer comes of it: silence, broken connections, refusals of every server's own wording."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

from tests.support.llm_behaviours import behaviour, chunk, good, say, usage

if TYPE_CHECKING:
    from tests.support.llm_server import Exchange


@behaviour("hang")
async def _hang(exchange: "Exchange", _: str) -> None:
    await exchange.until_left()


@behaviour("hang_midway")
async def _hang_midway(exchange: "Exchange", _: str) -> None:
    await exchange.begin()
    await exchange.event(chunk(content=good(exchange)[:20]))
    await exchange.until_left()


@behaviour("drip")
async def _drip(exchange: "Exchange", _: str) -> None:
    """Signs of life, and nothing else."""
    await exchange.begin()
    while True:
        await exchange.chunk(b": still here\n\n")
        await asyncio.sleep(0.02)


@behaviour("cut")
async def _cut(exchange: "Exchange", _: str) -> None:
    """In the middle of the stream."""
    await exchange.begin()
    await exchange.event(chunk(content=good(exchange)[:20]))


@behaviour("ends_early")
async def _ends_early(exchange: "Exchange", _: str) -> None:
    """The same, with a proper end of the stream."""
    await exchange.begin()
    await exchange.event(chunk(content=good(exchange)[:20]))
    await exchange.end()


@behaviour("drop")
async def _drop(_exchange: "Exchange", _: str) -> None:
    """The connection, without a byte."""


@behaviour("empty_choices")
async def _empty_choices(exchange: "Exchange", _: str) -> None:
    await exchange.begin()
    await exchange.event({"choices": []})
    await exchange.event("[DONE]")
    await exchange.end()


@behaviour("event")
async def _event(exchange: "Exchange", data: str) -> None:
    """This one event, and the end."""
    await exchange.begin()
    await exchange.event(data)
    await exchange.end()


@behaviour("raw")
async def _raw(exchange: "Exchange", data: str) -> None:
    """These bytes, in hexadecimal, in place of the whole response."""
    await exchange.raw(bytes.fromhex(data))
    exchange.asked.outcome = "answered"


@behaviour("html")
async def _html(exchange: "Exchange", status: str) -> None:
    """Of a gateway."""
    page = b"<html><head><title>Bad Gateway</title></head><body>nginx</body></html>"
    await exchange.respond(int(status or 502), page, Content_Type="text/html")


@behaviour("status")
async def _status(exchange: "Exchange", argument: str) -> None:
    """`404` or `400 {"error": …}`."""
    status, _, body = argument.partition(" ")
    await exchange.respond(int(status), body.encode())


@behaviour("429")
async def _throttled(exchange: "Exchange", seconds: str) -> None:
    """Without an argument it does not say how long."""
    await exchange.respond(429, _throttling(), **({"Retry_After": seconds} if seconds else {}))


@behaviour("429_date")
async def _throttled_by_date(exchange: "Exchange", seconds: str) -> None:
    now = datetime.now(UTC)
    then = now + timedelta(seconds=float(seconds))
    told = {"Date": format_datetime(now, usegmt=True), "Retry_After": format_datetime(then, usegmt=True)}
    await exchange.respond(429, _throttling(), **told)


@behaviour("429_ms")
async def _throttled_by_milliseconds(exchange: "Exchange", milliseconds: str) -> None:
    await exchange.respond(429, _throttling(), retry_after_ms=milliseconds)


@behaviour("429_body")
async def _throttled_in_words(exchange: "Exchange", span: str) -> None:
    await exchange.respond(429, _throttling(f" Please try again in {span}. Visit https://llm.test to learn more."))


@behaviour("503")
async def _overloaded(exchange: "Exchange", seconds: str) -> None:
    body = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    await exchange.respond(503, body, **({"Retry_After": seconds} if seconds else {}))


def _throttling(hint: str = "") -> dict[str, Any]:
    message = f"Rate limit reached for test on tokens per min (TPM): Limit 30000, Used 27418.{hint}"
    return {"error": {"message": message, "type": "tokens", "param": None, "code": "rate_limit_exceeded"}}


TOO_LONG: dict[str, tuple[int, dict[str, Any]]] = {
    "openai": (
        400,
        {
            "message": "This model's maximum context length is 8192 tokens. However, your messages have 9001 tokens.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
    ),
    "vllm": (
        400,
        {
            "message": "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length"
            " is 8192 tokens and your request has 5000 input tokens",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "llama.cpp": (
        400,
        {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 20031,
            "n_ctx": 8192,
        },
    ),
    "llama.cpp as 500": (
        500,
        {
            "code": 500,
            "message": "the request exceeds the available context size. try increasing the context size",
            "type": "exceed_context_size_error",
        },
    ),
    "ollama": (
        400,
        {
            "message": "prompt too long; exceeded max context length by 1234 tokens",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        },
    ),
    "a minute's tokens": (
        429,
        {
            "message": "Request too large for test on tokens per min (TPM): Limit 30000, Requested 42000.",
            "type": "tokens",
            "code": "rate_limit_exceeded",
        },
    ),
}


@behaviour("too_long")
async def _too_long(exchange: "Exchange", server: str) -> None:
    status, error = TOO_LONG[server or "openai"]
    await exchange.respond(status, {"error": error})


@behaviour("cuts")
async def _cuts(exchange: "Exchange", context: str) -> None:
    """A question longer than this many tokens, without a word; the answer is as good as ever."""
    counted = usage(exchange, good(exchange))
    counted["prompt_tokens"] = min(counted["prompt_tokens"], int(context))
    await say(exchange, good(exchange), counted=counted)


WORDING = {
    "stream_options": "Unrecognized request argument supplied: stream_options",
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model."
    " Use 'max_completion_tokens' instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0 with this model.",
    "strict": "Invalid schema for response_format 'answer': In context=(), 'minItems' is not permitted.",
    "json_schema": "This response_format type is unavailable now",
    "json_object": "'response_format.type' must be 'text'",
}


@behaviour("refuses")
async def _refuses(exchange: "Exchange", named: str) -> None:
    """Whichever of these the request has; if none, it answers."""
    body = exchange.asked.body
    form = body.get("response_format", {})
    has = {*body, form.get("type"), "strict" if form.get("json_schema", {}).get("strict") else None}
    refused = next((each for each in named.split(",") if each in has), None)
    if refused is None:
        await say(exchange, good(exchange))
        return
    await exchange.respond(400, {"error": {"message": WORDING[refused], "type": "invalid_request_error"}})


@behaviour("error_in_stream")
async def _error_in_stream(exchange: "Exchange", error: str) -> None:
    """After the answer's beginning; the argument is the error's JSON."""
    await exchange.begin()
    await exchange.event(chunk(content=good(exchange)[:20]))
    await exchange.event({"error": json.loads(error)})
    await exchange.event("[DONE]")
    await exchange.end()
