"""A language model without a server: it says what the test has written down, and remembers what it was asked."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from app.domain.llm.token_estimate import estimate_tokens
from app.ports.llm import Answer, LlmTruncated, Question, TokenUsage

Say = str | Exception
Rule = Callable[[Question], Say]


@dataclass
class Scripted:
    """Answers in order, then by `rule`. One that is longer than allowed is cut off, as by any server."""

    script: list[Say] = field(default_factory=list)
    rule: Rule | None = None
    context_tokens: int = 8192
    asked: list[Question] = field(default_factory=list)
    spent: int = 0
    """Tokens, of all that was answered."""

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        if not self.script and self.rule is None:
            raise AssertionError("asked once more than the test expects")
        say = self.script.pop(0) if self.script else self._by_rule(question)
        if isinstance(say, Exception):
            raise say
        usage = TokenUsage(
            input_tokens=estimate_tokens(question.system) + estimate_tokens(question.user),
            output_tokens=min(estimate_tokens(say), question.max_output_tokens),
        )
        self.spent += usage.input_tokens + usage.output_tokens
        if estimate_tokens(say) > question.max_output_tokens:
            raise LlmTruncated("cut off", usage=usage)
        return Answer(text=say, usage=usage)

    async def probe(self) -> None:
        """It is always there."""

    def _by_rule(self, question: Question) -> Say:
        assert self.rule is not None
        return self.rule(question)


def says(**value: object) -> str:
    return json.dumps(value)
