"""Neither what a document says, nor what is asked of it, nor the key is ever in a message, traceback or log line."""

import io
import json
import logging
import traceback
from collections.abc import Iterator, Sequence

import pytest
import structlog

from app.adapters.llm import circuit_breaker, client, dialect
from app.telemetry import set_up_logging
from tests.support.llm_asking import HURRIED, KEY, Asking, asking

SECRET = "Grzegorz Brzeczyszczykiewicz"
WISH = "wherever-chrzaszczyzewoszyce"
USER = f"Find {WISH} in: {SECRET}. " * 100


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream, before = io.StringIO(), structlog.get_config()
    root = logging.getLogger()
    handlers, level, root.handlers = root.handlers, root.level, []
    set_up_logging(level="debug", human=False, stream=stream)
    root.setLevel(logging.DEBUG)
    for module in (client, dialect, circuit_breaker):
        # Loggers remember how they were set up when they were first used.
        monkeypatch.setattr(module, "log", structlog.get_logger())
    yield stream
    root.handlers, root.level = handlers, level
    structlog.configure(**before)


ECHO = json.dumps(
    {
        "error": {
            "message": f"can't take {SECRET} with the key {KEY} for {WISH}",
            "code": SECRET,
            "type": KEY,
            "param": WISH,
        },
        "detail": [{"loc": ["body", SECRET], "msg": f"{KEY} {WISH}", "input": SECRET}],
    }
)


@pytest.mark.threat(69)
@pytest.mark.parametrize(
    "behaviour",
    [
        "hang",
        "cut",
        "drop",
        "refusal",
        "length",
        f"endless:{SECRET} ",
        "cuts:300",
        "invalid",
        f"finish:{SECRET}",
        f"event:{SECRET}",
        f"text:{SECRET}",
        f"raw:{SECRET.encode().hex()}",
        *(f"status:{status} {ECHO}" for status in (301, 400, 401, 402, 404, 408, 413, 422, 429, 500, 503)),
        f"status:400 {SECRET} {KEY} {WISH}",
        f"status:400 {json.dumps({'error': {'message': f'context length of {SECRET}'}})}",
        f"error_in_stream:{json.dumps(json.loads(ECHO)['error'])}",
        "refuses:stream_options,temperature,json_schema",
        "too_long",
    ],
)
async def test_text_wish_and_key_stay_out_of_messages_and_logs(lines: io.StringIO, behaviour: str) -> None:
    async with asking(**HURRIED if behaviour == "hang" else {}) as llm:
        llm.server.default = behaviour
        outcomes = [await llm.outcome(user=USER) for _ in range(6)]
    assert any(SECRET in asked.prompt.user and KEY in str(asked.headers) for asked in llm.server.log)
    assert nothing_is_told(lines, llm, outcomes)


@pytest.mark.threat(69)
async def test_nor_are_they_told_when_nobody_is_there_to_hear_them(lines: io.StringIO) -> None:
    async with asking() as llm:
        await llm.server.stop()
        outcomes = [await llm.outcome(user=USER) for _ in range(6)]
    assert nothing_is_told(lines, llm, outcomes)


def nothing_is_told(lines: io.StringIO, llm: Asking, outcomes: Sequence[object]) -> bool:
    told = [lines.getvalue(), repr(llm.client), *(_shown(each) for each in outcomes if isinstance(each, Exception))]
    assert "httpcore" in told[0], "the libraries were heard, too"
    return not [secret for secret in (SECRET, WISH, KEY, SECRET.split()[1]) for text in told if secret in text]


def _shown(error: BaseException) -> str:
    chain = traceback.TracebackException.from_exception(error, capture_locals=False)
    return "".join(chain.format()) + repr(error) + repr(error.args)
