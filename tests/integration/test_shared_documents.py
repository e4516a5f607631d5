"""Jobs of one document at once, in any mix of modes and pages: they end as if one had run after the other.

Run: ./daira test -m slow tests/integration/test_shared_documents.py -n0 -s
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest
from typing_extensions import override

from app.adapters.memory.blobs import MemoryBlobs
from app.adapters.memory.doorbell import MemoryDoorbell
from app.adapters.postgres.engine import PostgresEngine
from app.domain.documents import Document, blob_key
from app.domain.ids import DocumentId, TenantId
from app.domain.jobs import AttemptOutcome, Job, JobState
from app.domain.pages import Page, Source, chosen_pages
from app.domain.search import parse_query
from app.domain.warnings import DocumentWarning, WarningCode
from app.handlers.llm.ask import AskHandler
from app.handlers.llm.conversation import LlmBudget
from app.handlers.ocr import OcrHandler
from app.ports.leases import Handler
from app.ports.reading import Mode, OpenFile, UnreadablePage
from app.reading.null import NullRecognizer
from app.telemetry import Metrics
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig, new_page, ring_of
from tests.support.scripted_llm import Scripted, says
from tests.unit.bench import Bench, a_hold

PAGES = 5
RANGES = (None, None, "1", "2-4", "5,1", "1-5")
LANGUAGES = ("eng", "deu")
"""One for each job of a pair, so that a page tells which of the two has read it."""
SLOTS = 4
REMOVED = 10
"""One document in so many is deleted while its jobs run."""


@dataclass(frozen=True)
class _TaggedFile:
    tag: str
    language: str
    source: Source
    page_count: int = PAGES

    @property
    def warnings(self) -> Sequence[DocumentWarning]:
        return [DocumentWarning(code=WarningCode.SIGNED, detail=self.tag)]

    async def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | UnreadablePage]:
        for number in numbers or ():
            await asyncio.sleep(random.random() * 0.003)  # noqa: S311 - so that jobs meet at any point
            warnings = (WarningCode.LOW_CONFIDENCE,) if self.source is Source.OCR else ()
            yield replace(
                new_page(number, text=f"{self.tag} page{number}"),
                source=self.source,
                language=self.language,
                warnings=warnings,
            )


class TaggingRecognizer(NullRecognizer):
    """Reads pages that name their job's mode and language."""

    @override
    @asynccontextmanager
    async def open(
        self,
        path: Path,
        *,
        media_type: str,
        language: str,
        mode: Mode,
        recognition: bool = True,
    ) -> AsyncIterator[OpenFile]:
        source = Source.TEXT_LAYER if mode is Mode.SKIP else Source.OCR
        yield _TaggedFile(tag=f"{mode}{language}", language=language, source=source)


@dataclass(frozen=True, kw_only=True)
class Pair:
    document: Document
    jobs: Sequence[Job]
    """The first two read the document."""


async def test_40_pairs_of_jobs_on_shared_documents(cloned: Cloned) -> None:
    await run_pairs(cloned, 40)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_1000_pairs_of_jobs_on_shared_documents(cloned: Cloned) -> None:
    print("\n", await run_pairs(cloned, 1_000))  # noqa: T201


async def run_pairs(cloned: Cloned, count: int) -> Counter[str]:
    blobs = MemoryBlobs()
    async with AsyncExitStack() as stack:
        rigs = []
        for _ in range(3):
            engine = PostgresEngine(cloned.app_url, pool_size=SLOTS + 2, name="test")
            stack.push_async_callback(engine.close)
            rigs.append(postgres_rig(cloned, engine))
        tenant = await rigs[0].tenant()
        pairs = [await _pair(rigs[0], tenant, number, blobs) for number in range(count)]
        waiting = [(pair, job) for pair in pairs for job in pair.jobs]
        waiting.reverse()
        removed: set[DocumentId] = set()
        slots = [_slot(rig, blobs, waiting, name=f"worker-{n}") for n, rig in enumerate(rigs) for _ in range(SLOTS)]
        await asyncio.gather(*slots, _removals(rigs[0], pairs, waiting, removed))
        outcomes: Counter[str] = Counter()
        for pair in pairs:
            outcomes += await _checked(rigs[0], pair, removed=pair.document.id in removed)
        return outcomes


async def _pair(rig: Rig, tenant: TenantId, number: int, blobs: MemoryBlobs) -> Pair:
    content = f"document {number}".encode()
    document = await rig.document(tenant, sha256=sha256(content).hexdigest(), metadata={"number": number})

    async def once() -> AsyncIterator[bytes]:
        yield content

    await blobs.put(blob_key(tenant, document.id), once())
    payloads = [
        {"mode": random.choice(list(Mode)), "pages": random.choice(RANGES), "language": language}  # noqa: S311
        for language in LANGUAGES
    ]
    jobs = [await rig.enqueue(tenant, document_id=document.id, payload=payload) for payload in payloads]
    if number % 3 == 0:
        question = {"question": "What does it say?"}
        jobs.append(await rig.enqueue(tenant, document_id=document.id, kind="ask", payload=question))
    return Pair(document=document, jobs=jobs)


async def _slot(rig: Rig, blobs: MemoryBlobs, waiting: list[tuple[Pair, Job]], *, name: str) -> None:
    """One of a worker's slots: it takes the next job, in the order of the pairs, until none is left."""
    llm = Scripted(rule=lambda _: says(found=False, answer=None, quotes=[]))
    budget = LlmBudget(calls=20, tokens=200_000)
    handlers: list[Handler] = [
        OcrHandler(database=rig.database, blobs=blobs, recognizer=TaggingRecognizer(), metrics=Metrics()),
        AskHandler(database=rig.database, llm=llm, budget=budget),
    ]
    bell = MemoryDoorbell()
    execution = replace(
        Bench(rig=rig, bell=bell).execution(),
        handlers={handler.kind: handler for handler in handlers},
        ringing=Bench(rig=rig, bell=bell).ringing,
        worker=name,
    )
    while waiting:
        _, job = waiting.pop()
        for claim in await execution.claim([ring_of(job)], kinds=frozenset({"ocr", "ask"})):
            if claim.job is not None:
                await execution.run(claim.job, a_hold(claim.job))


async def _removals(rig: Rig, pairs: Sequence[Pair], waiting: list[tuple[Pair, Job]], removed: set[DocumentId]) -> None:
    """Delete some documents while their jobs run, and index others anew as maintenance does."""
    numbers = {pair.document.id: number for number, pair in enumerate(pairs)}
    done = 0
    while waiting:
        reached = numbers[waiting[-1][0].document.id]
        for pair in pairs[done:reached]:
            async with rig.database.begin(pair.document.tenant_id) as tx:
                await tx.search.index(pair.document.id)
            if numbers[pair.document.id] % REMOVED == 0:
                assert await rig.remove(pair.document)
                removed.add(pair.document.id)
        done = reached
        await asyncio.sleep(0.001)


async def _checked(rig: Rig, pair: Pair, *, removed: bool) -> Counter[str]:
    async with rig.database.begin(pair.document.tenant_id) as tx:
        jobs = await tx.jobs.newest(document_ids=[pair.document.id])
        document = await tx.documents.get(pair.document.id)
        pages = await tx.pages.all(pair.document.id)
        attempts = [attempt for job in jobs for attempt in await tx.jobs.attempts(job.id)]
    if removed:
        assert (jobs, document, pages) == ([], None, [])
        return Counter({"removed": 1})
    assert document is not None
    reading = {job.id: job for job in jobs if job.kind == "ocr"}
    assert [job.state for job in reading.values()] == [JobState.DONE, JobState.DONE]
    assert [attempt.error for attempt in attempts if attempt.error and attempt.error.code != "not_ready"] == []
    assert {attempt.outcome for attempt in attempts} <= {AttemptOutcome.DONE, AttemptOutcome.SNOOZE}
    first, second = (reading[job.id].payload for job in pair.jobs[:2])
    found = {page.number: page.text for page in pages}
    orders = [_after(first, second), _after(second, first)]
    assert (found, document.warnings[0].detail) in orders
    assert document.page_count == PAGES
    await _check_index(rig, pair.document, found)
    return Counter({"whole": 1, "attempts": len(attempts)})


def _after(first: Mapping[str, object], second: Mapping[str, object]) -> tuple[dict[int, str], str]:
    """The texts, and the warning about the file, when one job has run after the other."""
    texts: dict[int, str] = {}
    for payload in (first, second):
        pages = payload["pages"]
        assert pages is None or isinstance(pages, str)
        read = {number: f"{_tag(payload)} page{number}" for number in chosen_pages(pages, page_count=PAGES)}
        texts = read if pages is None else texts | read
    return texts, _tag(second)


def _tag(payload: Mapping[str, object]) -> str:
    return f"{payload['mode']}{payload['language']}"


async def _check_index(rig: Rig, document: Document, texts: Mapping[int, str]) -> None:
    async with rig.database.begin(document.tenant_id) as tx:
        for tag in {f"{mode}{language}" for mode in Mode for language in LANGUAGES}:
            results = await tx.search.find(parse_query(tag), limit=PAGES + 1, document_id=document.id)
            assert {hit.page for hit in results.hits} == {n for n, text in texts.items() if text.startswith(f"{tag} ")}
