"""A client for language models behind any endpoint that speaks OpenAI's chat completions over HTTP.

No message and no log line holds text, prompts or keys: a server's error texts are interpreted and discarded.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import parse_qs, urlsplit

import httpx
import structlog

from app.adapters.llm.circuit_breaker import CircuitBreaker
from app.adapters.llm.dialect import Capabilities, DialectCache
from app.adapters.llm.failures import (
    AccountFault,
    ConnectFault,
    EndpointThrottled,
    ResponseFault,
    StatusFault,
    error_response,
    raise_fault,
)
from app.adapters.llm.stream import AnswerReader, ProtocolFault, answer_of, least_input_tokens
from app.domain.errors import Unavailable
from app.ports.llm import (
    Answer,
    LlmBusy,
    LlmContextExceeded,
    LlmFault,
    LlmRefused,
    LlmRejected,
    LlmTruncated,
    Question,
    TokenUsage,
)
from app.telemetry import Metrics

log = structlog.get_logger()

CONNECT = 10.0
"""Seconds."""

PROBE = Question(system="You are being tested.", user="Answer with the word yes.", max_output_tokens=16)

TOO_LITTLE_CONTEXT = "set DAIRA_LLM_CONTEXT_TOKENS to what the model takes, or give the model more (Ollama: num_ctx)"

LARGEST_REFUSAL = 256 * 1024
"""Bytes of a refusal that are read."""

PATH = "/chat/completions"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

OUTCOMES: dict[type[BaseException], str] = {
    LlmRefused: "refused",
    LlmTruncated: "truncated",
    LlmContextExceeded: "context_exceeded",
    LlmRejected: "rejected",
    LlmBusy: "busy",
    Unavailable: "unavailable",
}


class LlmClient:
    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str,
        context_tokens: int,
        slots: int,
        first_byte_seconds: float,
        total_seconds: float,
        metrics: Metrics,
        gate: CircuitBreaker | None = None,
    ) -> None:
        """`slots` is the number of simultaneous questions; more wait.

        `first_byte_seconds` also limits the time between two bytes.
        """
        self._url = httpx.URL(endpoint(base_url))
        self._model = model
        self._context_tokens = context_tokens
        self._total = total_seconds
        self._metrics = metrics
        self._gate = gate or CircuitBreaker()
        self._dialects = DialectCache()
        self._slots = asyncio.Semaphore(slots)
        self._http = httpx.AsyncClient(
            headers=_headers(base_url, api_key),
            timeout=httpx.Timeout(first_byte_seconds, connect=min(CONNECT, first_byte_seconds), pool=None),
            # A server may close a kept connection just when it is used again, which would lose an attempt to save
            # milliseconds. And a pool with a limit can lose its places forever (httpcore issue 1093).
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            # Proxies and certificates are those of the environment, but questions to a server on this machine go to it
            # directly.
            trust_env=urlsplit(base_url).hostname not in LOOPBACK,
        )

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, question: Question) -> Answer:
        least = least_input_tokens(question) + question.max_output_tokens
        if least > self._context_tokens:
            raise LlmContextExceeded(
                f"question and answer need {least} tokens or more, the language model takes {self._context_tokens}"
            )
        async with self._slots:
            with self._counted():
                with self._gate.passage():
                    answer = await self._answer(question)
                self._spent(answer.usage)
                return answer

    async def probe(self) -> None:
        """Ask beside the slots, and also while questions are held back."""
        with suppress(EndpointThrottled, LlmTruncated, LlmRefused, LlmContextExceeded):
            try:
                self._spent((await self._answer(PROBE)).usage)
            except (AccountFault, ConnectFault, ResponseFault, LlmRejected) as fault:
                raise Unavailable(str(fault)) from None
        self._gate.answered()

    async def _answer(self, question: Question) -> Answer:
        dialect = self._dialects.current()
        try:
            async with asyncio.timeout(self._total):
                while isinstance(outcome := await self._exchange(question, dialect), StatusFault):
                    dialect = self._simpler(dialect, outcome, question)
                return outcome
        except TimeoutError:
            raise Unavailable(f"the language model did not finish within {self._total:g} s", excusable=False) from None

    def _simpler(self, dialect: Capabilities, refusal: StatusFault, question: Question) -> Capabilities:
        """Return capabilities without the refused one; there are at most six such steps.

        Raises the refusal's meaning otherwise.
        """
        simpler = dialect.simpler(refusal, question.schema)
        if simpler is None:
            raise_fault(refusal)
        self._dialects.note(simpler, refusal)
        return simpler

    async def _exchange(self, question: Question, dialect: Capabilities) -> Answer | StatusFault:
        """Send the question once. Raises what `ask` raises, and ConnectFault and ResponseFault."""
        reading = AnswerReader(max_output_tokens=question.max_output_tokens)
        body = dialect.request(question, model=self._model)
        try:
            async with self._http.stream("POST", self._url, content=body) as response:
                if response.status_code != httpx.codes.OK:
                    return await _refusal(response)
                await reading.take(response.aiter_bytes())
        except StatusFault as refusal:
            # Returned, not raised: the next exception would refer to it, and it holds the server's words.
            return refusal
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise ConnectFault(f"the language model can't be reached ({_name(error)})") from None
        except httpx.HTTPError as error:
            # An answer that is complete counts, however the connection ended.
            if reading.finish is None:
                raise ResponseFault(f"the language model fell silent ({_name(error)})") from None
        except ProtocolFault:
            raise Unavailable("the language model's server does not speak the protocol", excusable=False) from None
        return answer_of(question, reading)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        started, outcome = time.monotonic(), "cancelled"
        try:
            yield
            outcome = "answered"
        except (LlmFault, LlmBusy, Unavailable) as error:
            outcome = OUTCOMES[type(error)]
            if isinstance(error, LlmFault):
                self._spent(error.usage)
            if isinstance(error, LlmRejected):
                log.warning("llm_rejected", reason=str(error))
            if isinstance(error, LlmContextExceeded):
                log.warning("llm_context_exceeded", reason=str(error), advice=TOO_LITTLE_CONTEXT)
            raise
        finally:
            self._metrics.llm_seconds.labels(outcome).observe(time.monotonic() - started)

    def _spent(self, usage: TokenUsage) -> None:
        self._metrics.llm_tokens.labels("input").inc(usage.input_tokens)
        self._metrics.llm_tokens.labels("output").inc(usage.output_tokens)


def endpoint(base_url: str) -> str:
    """Return the URL that questions are sent to. It keeps the query, such as Azure's `api-version`."""
    parts = urlsplit(base_url)
    return parts._replace(path=parts.path.rstrip("/").removesuffix(PATH) + PATH).geturl()


def _headers(base_url: str, api_key: str) -> dict[str, str]:
    # Uncompressed, so that the bounds on bytes also bound the memory.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "daira"}
    if not api_key:
        return headers
    if "api-version" in parse_qs(urlsplit(base_url).query):
        return headers | {"api-key": api_key}
    return headers | {"Authorization": f"Bearer {api_key}"}


async def _refusal(response: httpx.Response) -> StatusFault:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > LARGEST_REFUSAL:
            break
    return error_response(response.status_code, response.headers, bytes(body[:LARGEST_REFUSAL]))


def _name(error: Exception) -> str:
    """The error's type only: its message may hold an internal address."""
    return type(error).__name__
