"""The questions of one job, kept within its budget and never paid twice.

An unusable answer is followed by one more try. An answer that is not the job's last is stored at once, under the
fence, with its cost. The last one is written with the settle, in one transaction. Nothing else is read, awaited or
decided between the last answer and that transaction.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from app.domain.errors import AttemptOver, Unavailable
from app.domain.leases import Lease
from app.domain.llm.chunks import Chunk, PagePart, chunks_of
from app.domain.llm.kept_answers import KeptAnswer
from app.domain.usage import UsageCounts
from app.handlers.llm.answers import UnusableAnswer, read_answer
from app.handlers.llm.prompts import Prompt
from app.handlers.llm.schema_validation import SchemaValidator
from app.ports.database import Database
from app.ports.leases import ProgressReporter
from app.ports.llm import Llm, LlmFault, LlmTruncated, TokenUsage

TRIES = 2
"""The question, and one more after an unusable answer. A third has never been worth its price."""

ANSWER, LONG_ANSWER = 4_096, 16_384
"""Tokens of an answer, and of the second try after one was cut off. Both are less where the context is short."""

LEAST_ROOM = 256
"""The least tokens of material in one question. With less, the answers cost more than they are worth."""

KEEP_AGAIN = 0.5
"""Seconds between tries to store an answer while the database is away. The end of the lease ends the tries."""

CUT_OFF = "the answer was cut off"


class SlotWanted(Exception):
    """Another tenant waits for the job's slot, between two questions. The answers so far are stored."""


class NoUsableAnswer(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmBudget:
    """The limits of one job, over all its questions, tries and attempts."""

    calls: int
    tokens: int

    @override
    def __str__(self) -> str:
        return f"{self.calls:,} questions and {self.tokens:,} tokens"


class Conversation:
    def __init__(
        self,
        llm: Llm,
        database: Database,
        lease: Lease,
        *,
        budget: LlmBudget,
        reporter: ProgressReporter,
        kept: Iterable[KeptAnswer] = (),
    ) -> None:
        self._reporter = reporter
        self._has_asked = False
        self._llm = llm
        self._database = database
        self._lease = lease
        self._budget = budget
        self._kept = {each.question: each for each in kept}
        self._calls = len(self._kept)
        self._input = sum(each.input_tokens for each in self._kept.values())
        self._output = sum(each.output_tokens for each in self._kept.values())
        self._answer = min(ANSWER, llm.context_tokens // 8)
        self._long_answer = min(LONG_ANSWER, llm.context_tokens // 4)

    @classmethod
    async def open(
        cls, llm: Llm, database: Database, lease: Lease, *, budget: LlmBudget, reporter: ProgressReporter
    ) -> "Conversation":
        """Open the conversation with the answers of earlier attempts."""
        async with database.begin(lease.tenant_id) as tx:
            kept = await tx.answers.kept(lease.job_id)
        return cls(llm, database, lease, budget=budget, reporter=reporter, kept=kept)

    @property
    def usage(self) -> dict[str, int]:
        return {"calls": self._calls, "input_tokens": self._input, "output_tokens": self._output}

    def room(self, prompt: Prompt) -> int:
        """Return the tokens of material that fit into one question.

        Raises NoUsableAnswer when there is too little room.
        """
        room = self._llm.context_tokens - self._long_answer - prompt.overhead
        if room < LEAST_ROOM:
            raise NoUsableAnswer(
                "llm_context_exceeded",
                f"the request takes {prompt.overhead:,} of the model's {self._llm.context_tokens:,} tokens and leaves"
                " no room for a document: shorten it",
            )
        return room

    async def planned(self, prompt: Prompt, pieces: Sequence[PagePart]) -> list[Chunk]:
        """Divide all pieces into as few questions as possible. Raises NoUsableAnswer when they exceed the budget."""
        chunks = await asyncio.to_thread(chunks_of, pieces, room=self.room(prompt))
        tokens = sum(chunk.tokens + prompt.overhead for chunk in chunks)
        if len(chunks) > self._budget.calls or tokens > self._budget.tokens:
            raise NoUsableAnswer(
                "llm_context_exceeded",
                f"the document needs {len(chunks):,} questions of {tokens:,} tokens; a job may have {self._budget}",
            )
        return chunks

    async def ask(
        self,
        prompt: Prompt,
        validator: SchemaValidator,
        *,
        final: bool = False,
        divisible: bool = False,
        long: bool = False,
    ) -> Any:
        """Return a JSON value that fits. `final`: the job ends with it. `long`: the answer may use the larger limit.

        Raises the errors of the port, NoUsableAnswer, and SlotWanted. LlmTruncated is raised only where the question is
        `divisible`, so that the caller asks for less at a time. Otherwise a cut-off answer is tried again with the
        larger limit.
        """
        fault = None
        for number in range(TRIES):
            kept, value = await self._tried(prompt, validator, number=number, fault=fault, long=long, final=final)
            if kept.fault is None:
                return value
            if kept.fault != CUT_OFF:
                fault = kept.fault
            elif divisible and not long:
                raise LlmTruncated(CUT_OFF)
            elif long:
                break
            else:
                long = True
        raise NoUsableAnswer("llm_invalid_output", f"the model gave no usable answer: {fault or CUT_OFF}")

    async def _tried(
        self, prompt: Prompt, validator: SchemaValidator, *, number: int, fault: str | None, long: bool, final: bool
    ) -> tuple[KeptAnswer, Any]:
        name = f"{prompt.digest}:{number}{':long' if long else ''}"
        known = self._kept.get(name)
        if known is not None:
            value = None if known.text is None else await asyncio.to_thread(read_answer, known.text, validator)
            return known, value
        text, fault, usage = await self._asked(prompt, fault=fault, long=long)
        value = None
        if text is not None:
            try:
                # In a thread, because an answer may be long and a caller wrote its schema.
                value = await asyncio.to_thread(read_answer, text, validator)
            except UnusableAnswer as useless:
                text, fault = None, str(useless)
        kept = KeptAnswer(
            question=name, text=text, fault=fault, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens
        )
        if not final or kept.fault is not None:
            await self._keep(kept)
        return kept, value

    async def _asked(
        self, prompt: Prompt, *, fault: str | None, long: bool
    ) -> tuple[str | None, str | None, TokenUsage]:
        """Return the text and no fault, or no text and the fault; and the cost."""
        # After one question at least, or a job that many wait for would never end.
        if self._has_asked and self._reporter.must_yield:
            raise SlotWanted
        self._has_asked = True
        most = self._long_answer if long else self._answer
        self._check_budget(prompt.tokens + most)
        try:
            answer = await self._llm.ask(prompt.question(max_output_tokens=most, fault=fault))
        except LlmTruncated as cut:
            self._spend(cut.usage)
            return None, CUT_OFF, cut.usage
        except LlmFault as other:
            self._spend(other.usage)
            await self._count(other.usage)
            raise
        self._spend(answer.usage)
        return answer.text, None, answer.usage

    def _check_budget(self, tokens: int) -> None:
        if self._calls + 1 > self._budget.calls or self._input + self._output + tokens > self._budget.tokens:
            raise NoUsableAnswer(
                "llm_context_exceeded",
                f"after {self._calls:,} questions and {self._input + self._output:,} tokens the job would exceed"
                f" its budget, {self._budget}",
            )

    def _spend(self, usage: TokenUsage) -> None:
        self._calls += 1
        self._input += usage.input_tokens
        self._output += usage.output_tokens

    async def _count(self, usage: TokenUsage) -> None:
        """Count the cost of a call without an answer to store.

        It is not retried, so that nothing is counted twice.
        """
        with suppress(Unavailable):
            async with self._database.begin(self._lease.tenant_id) as tx:
                await tx.usage.add(UsageCounts(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens))

    async def _keep(self, kept: KeptAnswer) -> None:
        """Retry until the outcome is known, as a settle does, so that no database restart loses a paid answer."""
        self._kept[kept.question] = kept
        while True:
            try:
                async with self._database.begin(self._lease.tenant_id) as tx:
                    held = await tx.answers.keep(self._lease, kept)
            except Unavailable:
                await asyncio.sleep(KEEP_AGAIN)
            else:
                if not held:
                    raise AttemptOver("the lease is lost: another attempt continues from the stored answers")
                return
