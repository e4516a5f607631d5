"""The language-model port: a question in, a whole answer out. What can go wrong is told by what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    system: str
    """What is to be done, in our words alone."""
    user: str
    """The material: document text, delimited, and the caller's wish. It is data and gives no orders."""
    schema: Mapping[str, object] | None = None
    """JSON Schema that the answer must fit; None: prose. The adapter tells the model, in `system` too: don't repeat it.

    A server that can't enforce it answers what it likes: the answer has to be validated.
    """
    max_output_tokens: int
    """More is never paid for. A model that thinks uses them for its thoughts, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens, as the server counts them; estimated where it says nothing."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    text: str
    """Whole: an answer that was cut off is an LlmTruncated. Scrubbed, escapes of JSON included; not yet parsed.

    It may be empty, and what a model says instead of the JSON, or around it, is still there.
    """
    usage: TokenUsage


class LlmFault(Exception):
    """The server has answered, and asking the same again would not help.

    `usage`: what it has cost all the same.

    LlmFault
    ├── LlmRefused          it will not (refusal, content filter)
    ├── LlmTruncated        the answer reached max_output_tokens, or ran in circles
    ├── LlmContextExceeded  the question is too long for the model, or was cut by its server
    └── LlmRejected         the request is wrong: model unknown, key refused, parameter not understood
    """

    def __init__(self, message: str, *, usage: TokenUsage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or TokenUsage(input_tokens=0, output_tokens=0)


class LlmRefused(LlmFault): ...


class LlmTruncated(LlmFault): ...


class LlmContextExceeded(LlmFault): ...


class LlmRejected(LlmFault): ...


class LlmBusy(Exception):
    """Not now (429, 503 with Retry-After, an open breaker): nobody's fault, come back after `after`."""

    def __init__(self, message: str, *, after: timedelta) -> None:
        super().__init__(message)
        self.after = after


class Llm(Protocol):
    @property
    def context_tokens(self) -> int:
        """The most tokens that question and answer may have together; see `app.domain.llm.token_estimate`."""
        ...

    async def ask(self, question: Question) -> Answer:
        """Raises LlmFault, LlmBusy, and Unavailable for time-outs, 5xx and broken connections (worth a retry).

        Nothing else is raised. What may have been answered is not asked again. Messages hold neither text nor keys.
        """
        ...
