"""The language-model port: a question in, a whole answer out. Faults are divided by the caller's possible reaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    system: str
    """The task, in Daira's own words only."""
    user: str
    """The material: delimited document text and the caller's wish. It is data and never an instruction."""
    schema: Mapping[str, object] | None = None
    """JSON Schema that the answer must fit; None for prose.

    The adapter adds it to the model's `system` text too, so don't repeat it there. A server that can't enforce it may
    answer anything, so the answer has to be validated.
    """
    max_output_tokens: int
    """The most tokens paid for. A reasoning model spends them on its reasoning, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens as the server counts them, or an estimate where the server reports none."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    text: str
    """The whole answer, scrubbed (JSON escapes included) and not yet parsed.

    A cut-off answer raises LlmTruncated instead. The text may be empty, and any words of the model instead of
    the JSON, or around it, are still there.
    """
    usage: TokenUsage


class LlmFault(Exception):
    """The server has answered, and the same question would fail again.

    `usage` is the cost of the answer all the same.

    LlmFault
    ├── LlmRefused          the model refuses (refusal, content filter)
    ├── LlmTruncated        the answer reached max_output_tokens, or repeated itself endlessly
    ├── LlmContextExceeded  the question is too long for the model, or was cut by its server
    └── LlmRejected         the request is wrong: a parameter is not understood
    """

    def __init__(self, message: str, *, usage: TokenUsage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or TokenUsage(input_tokens=0, output_tokens=0)


class LlmRefused(LlmFault): ...


class LlmTruncated(LlmFault): ...


class LlmContextExceeded(LlmFault): ...


class LlmRejected(LlmFault): ...


class LlmBusy(Exception):
    """The server can't answer now (429, 503 with Retry-After, an open circuit breaker). Retry after `after`."""

    def __init__(self, message: str, *, after: timedelta) -> None:
        super().__init__(message)
        self.after = after


class Llm(Protocol):
    @property
    def context_tokens(self) -> int:
        """The most tokens of question and answer together; see `app.domain.llm.token_estimate`."""
        ...

    async def ask(self, question: Question) -> Answer:
        """Raises LlmFault, LlmBusy, and Unavailable: excusable where no model was reached or none may be used.

        It raises nothing else. A question that may have been answered is not sent again. Messages hold no text
        and no keys, and are for tenants: what an operator has to set is only logged.
        """
        ...

    async def probe(self) -> None:
        """Ask a question of a few tokens. Raises Unavailable, with a message for the operator, if none is answered.

        A server that only asks to wait is in order.
        """
        ...
