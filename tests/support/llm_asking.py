"""A client that asks the test server, and a question for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from app.adapters.llm.circuit_breaker import CircuitBreaker
from app.adapters.llm.client import LlmClient
from app.domain.errors import Unavailable
from app.ports.llm import Answer, LlmBusy, LlmFault, Question
from app.telemetry import Metrics
from tests.support.llm_server import LlmServer, llm_server

HURRIED = {"first_byte_seconds": 0.5, "total_seconds": 2.0}
"""Patience with a server that will not answer."""

KEY = "sk-test-3f9a1c"

INVOICE = """\
<document>
<page number="1">
Kestrel Instruments
Invoice number: INV-2024-0117
Date: 2024-01-17
Total: 1,853.40 GBP
</page>
</document>
"""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"invoice_number": {"type": "string"}, "total": {"type": "number"}},
    "required": ["invoice_number", "total"],
    "additionalProperties": False,
}

LIKE_IT = '{"invoice_number": "INV-2024-0117", "total": 1853.4}'
"""What a good model answers to SCHEMA."""


def question(user: str = INVOICE, **given: Any) -> Question:
    asked: dict[str, Any] = {"system": "Do as you are asked.", "schema": SCHEMA, "max_output_tokens": 500}
    return Question(user=user, **asked | given)


@dataclass(frozen=True, kw_only=True)
class Asking:
    server: LlmServer
    client: LlmClient
    gate: CircuitBreaker
    metrics: Metrics

    async def ask(self, **given: Any) -> Answer:
        return await self.client.ask(question(**given))

    async def outcome(self, **given: Any) -> Answer | LlmFault | LlmBusy | Unavailable:
        """What the port allows, and nothing else."""
        try:
            return await self.ask(**given)
        except (LlmFault, LlmBusy, Unavailable) as error:
            return error

    def counted(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def client_of(base_url: str, **given: Any) -> AsyncIterator[tuple[LlmClient, CircuitBreaker, Metrics]]:
    # No jitter, so that a wait can be told.
    gate, metrics = given.pop("gate", CircuitBreaker(jitter=lambda: 0.0)), Metrics()
    usual: dict[str, Any] = {"model": "test", "api_key": KEY, "context_tokens": 8192, "slots": 4}
    # Far beyond what an answer takes, even on a busy machine.
    usual |= {"first_byte_seconds": 20, "total_seconds": 40}
    client = LlmClient(base_url=base_url, metrics=metrics, gate=gate, **usual | given)
    try:
        yield client, gate, metrics
    finally:
        await client.close()


@asynccontextmanager
async def asking(**given: Any) -> AsyncIterator[Asking]:
    async with llm_server() as server, client_of(server.url, **given) as (client, gate, metrics):
        yield Asking(server=server, client=client, gate=gate, metrics=metrics)
