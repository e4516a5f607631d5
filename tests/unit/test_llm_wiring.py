"""The language model of the settings: none, or a client that is closed with everything else."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from app.adapters.llm.client import LlmClient
from app.domain.doorbells import Lane
from app.settings import Settings
from app.telemetry import Metrics
from app.wiring import open_llm
from tests.support.llm_asking import INVOICE, question
from tests.support.llm_server import llm_server


def settings(**given: Any) -> Settings:
    return Settings(_env_file=None, **given)


async def test_without_an_address_there_is_no_language_model() -> None:
    async with AsyncExitStack() as stack:
        assert open_llm(settings(), stack, Metrics()) is None


async def test_a_client_asks_as_it_is_set_up_and_is_closed_with_the_rest() -> None:
    metrics = Metrics()
    async with llm_server() as server:
        async with AsyncExitStack() as stack:
            given = settings(
                llm_base_url=server.url,
                llm_model="small",
                llm_api_key="sk-1",
                llm_context_tokens=4096,
                lanes={Lane.LLM: 3},
            )
            llm = open_llm(given, stack, metrics)
            assert isinstance(llm, LlmClient)
            assert llm.context_tokens == 4096
            answer = await llm.ask(question())
            assert answer.text
        with pytest.raises(RuntimeError, match="closed"):
            await llm.ask(question())
    (asked,) = server.log
    assert (asked.body["model"], asked.headers["authorization"]) == ("small", "Bearer sk-1")
    assert INVOICE in asked.prompt.user
    assert b'daira_llm_tokens_total{direction="input"}' in metrics.exposition()
