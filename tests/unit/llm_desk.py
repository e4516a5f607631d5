"""A document with a text, and jobs that ask a scripted model about it, run as a worker runs them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.domain.documents import Document
from app.domain.doorbells import NEED_TEXT
from app.domain.jobs import Job
from app.domain.pages import Page, Source, Word, text_of
from app.handlers.llm.ask import AskHandler
from app.handlers.llm.classify import ClassifyHandler
from app.handlers.llm.conversation import LlmBudget
from app.handlers.llm.extract import ExtractHandler
from app.handlers.llm.summarize import SummarizeHandler
from app.ports.database import Database
from app.ports.leases import Handler
from app.worker.heartbeat import HeldLease
from tests.support.rig import Rig
from tests.support.scripted_llm import Scripted
from tests.unit.bench import Bench, a_hold

RECEIPT = "Corner Shop\n12 March 2026\n\nBread 2.40\nMilk 1.10\nTotal 3.50 EUR"


@dataclass(kw_only=True)
class LlmDesk:
    rig: Rig
    llm: Any = field(default_factory=Scripted)
    """A Scripted, or a client of a server."""
    budget: LlmBudget = LlmBudget(calls=20, tokens=200_000)  # noqa: RUF009 - it is frozen

    def handlers(self, database: Database | None = None) -> Mapping[str, Handler]:
        given: dict[str, Any] = {"database": database or self.rig.database, "llm": self.llm, "budget": self.budget}
        kinds = (SummarizeHandler, ExtractHandler, ClassifyHandler, AskHandler)
        made: dict[str, Handler] = {(handler := kind(**given)).kind: handler for kind in kinds}
        assert made.keys() == NEED_TEXT
        return made

    async def document(self, *texts: str) -> Document:
        """With a page for each text."""
        document = await self.rig.document(await self.rig.tenant())
        async with self.rig.database.begin(document.tenant_id) as tx:
            await tx.pages.replace(document.id, [page_of(number, text) for number, text in enumerate(texts, 1)])
            await tx.documents.set_read(document.id, page_count=len(texts))
        return document

    async def job(self, document: Document, kind: str, **payload: object) -> Job:
        return await self.rig.enqueue(document.tenant_id, document_id=document.id, kind=kind, payload=payload)

    async def run(
        self, job: Job, *, database: Database | None = None, must_yield: bool = False
    ) -> tuple[Job, HeldLease]:
        """One attempt; with `must_yield`, another tenant waits for its slot."""
        bench = Bench(rig=self.rig)
        execution = replace(bench.execution(), handlers=self.handlers(database))
        claimed = await self.rig.claimed(job)
        hold = a_hold(claimed)
        hold.must_yield = must_yield
        await execution.run(claimed, hold)
        return await self.rig.again(job), hold

    async def ask(self, texts: list[str] | str, kind: str, **payload: object) -> Job:
        """The job, after its first attempt."""
        document = await self.document(*([texts] if isinstance(texts, str) else texts))
        job, _ = await self.run(await self.job(document, kind, **payload))
        return job


def page_of(number: int, text: str) -> Page:
    """With words, a line each for a line."""
    words = [
        Word(text=word, box=(0, 0, 1, 1), confidence=1, source=Source.TEXT_LAYER, line=line, block=block)
        for block, paragraph in enumerate(text.split("\n\n"))
        for line, words in enumerate(paragraph.split("\n"), block * 100)
        for word in words.split()
    ]
    return Page(
        number=number,
        text=text_of(words),
        source=Source.TEXT_LAYER,
        confidence=1.0 if words else None,
        width=612.0,
        height=792.0,
        rotation=0,
        language="eng",
        words=tuple(words),
    )


def result_of(job: Job) -> dict[str, Any]:
    assert job.error is None, job.error
    assert isinstance(job.result, dict)
    return job.result


def code_of(job: Job) -> str:
    assert job.error is not None
    assert job.result is None
    return job.error.code


def codes(result: Mapping[str, Any]) -> list[str]:
    return [warning["code"] for warning in result["warnings"]]
