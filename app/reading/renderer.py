"""Rendering in separate child processes, which start on demand and end after a time without work."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import IO

import structlog

from app.domain.errors import DocumentFault, NotFound, Unavailable
from app.domain.filetypes.types import IMAGES, PDF
from app.domain.pages import Page
from app.reading.children import wire
from app.reading.children.file_session import OUT_OF_CPU
from app.reading.children.pool import ChildPool, PoolSlot
from app.reading.children.process import ChildDied, ChildFailed, ChildProcess
from app.reading.engines.choose import MEMORY_BYTES
from app.temp_copies import local_copy

log = structlog.get_logger()

RENDERER_FAILED = "renderer_failed"

IDLE_LIMIT = timedelta(seconds=60)
"""The time without work after which a child ends. It holds 80 MB, and a fresh one starts in half a second."""
_CPU_PER_SECOND = 2
"""CPU seconds for each second of the timeout. This limit backs the timeout up and must never act before it."""
_MOST_BYTES = 2 << 30
"""Bytes of one result at most, because a child that a file has taken over could fill a disk."""


class ProcessRenderer:
    """Renders pages and searchable copies in child processes.

    `timeout` is for one page and for each other step: opening, a batch of texts, writing the result.
    `pdf_cpu` is the CPU time that opening a PDF or drawing a page may take. A child ends after `rested` without work.
    """

    version = f"{version('pypdfium2')}-{version('pillow')}"

    def __init__(
        self,
        *,
        children: int,
        memory_bytes: int | None = None,
        timeout: timedelta = timedelta(seconds=60),
        pdf_cpu: timedelta = timedelta(seconds=10),
        max_pages: int = 2000,
        rested: timedelta = IDLE_LIMIT,
    ) -> None:
        self._timeout = timeout
        self._rested = rested
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._pool = ChildPool(
            size=children,
            setup={
                "engine": "tesseract",
                "memory_bytes": memory_bytes or MEMORY_BYTES,
                "cpu_seconds": timeout.total_seconds() * _CPU_PER_SECOND,
                "pdf_cpu_seconds": pdf_cpu.total_seconds(),
                "max_pages": max_pages,
                # A renderer recognises nothing: no model is loaded, and none has to be installed.
                "tessdata": "/nonexistent",
                "dpi": 0,
                "recognition": False,
                "warm": [],
            },
        )

    async def close(self) -> None:
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        await self._pool.close()

    def renders(self, media_type: str) -> bool:
        return media_type == PDF or media_type in IMAGES

    async def page_image(
        self, content: AsyncIterator[bytes], *, media_type: str, number: int, width: int, into: IO[bytes]
    ) -> None:
        async with self._opened(content, media_type=media_type) as session:
            await session.ask({"do": "page_image", "number": number, "width": width}, into=into)

    async def searchable(
        self,
        content: AsyncIterator[bytes],
        *,
        media_type: str,
        pages: AsyncIterator[Sequence[Page]],
        into: IO[bytes],
    ) -> None:
        async with self._opened(content, media_type=media_type) as session:
            await session.ask({"do": "copy"})
            async for some in pages:
                await session.ask({"do": "lay", "pages": [wire.packed_words(page) for page in some]})
            await session.ask({"do": "save"}, into=into)

    @asynccontextmanager
    async def _opened(self, content: AsyncIterator[bytes], *, media_type: str) -> AsyncIterator["_RenderSession"]:
        self._stop_idle_timer()
        try:
            async with local_copy(content) as path, self._pool.slot() as slot:
                session = _RenderSession(await _child_of(slot), timeout=self._timeout)
                await session.open(path, media_type=media_type)
                yield session
        except DocumentFault as fault:
            if self._closed:
                # `close` ended the child, not the file.
                raise Unavailable("this server is shutting down; try again", public=True) from fault
            raise
        finally:
            self._start_idle_timer()

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    def _start_idle_timer(self) -> None:
        self._stop_idle_timer()
        if self._closed:
            return
        self._idle_timer = asyncio.get_running_loop().call_later(self._rested.total_seconds(), self._pool.dismiss_idle)


class _RenderSession:
    """One file opened in one child. A failure is not retried here; the client may ask again."""

    def __init__(self, child: ChildProcess, *, timeout: timedelta) -> None:
        self._child = child
        self._timeout = timeout

    async def open(self, path: Path, *, media_type: str) -> None:
        self._child.files += 1
        await self.ask({"do": "open", "path": str(path), "media_type": media_type, "language": ""})

    async def ask(self, request: wire.Message, *, into: IO[bytes] | None = None) -> None:
        try:
            take = _bounded(into) if into else None
            answer = await self._child.ask(request, within=self._timeout, take=take)
        except TimeoutError as error:
            limit = f"{self._timeout.total_seconds():g} s"
            raise DocumentFault("timeout", f"Rendering took over {limit}: simplify or split the document.") from error
        except ChildDied as death:
            log.warning(RENDERER_FAILED, how=death.how, on=request["do"])
            if death.how == OUT_OF_CPU:
                raise DocumentFault(
                    "timeout", "Rendering takes too much CPU time: simplify or split the document."
                ) from death
            raise DocumentFault("corrupt", "The document crashed the renderer: save it anew.") from death
        except ChildFailed as failure:
            # A defect of Daira's, but another try would fail as well.
            log.exception(RENDERER_FAILED, on=request["do"])
            raise DocumentFault("corrupt", "The document can't be rendered: save it anew.") from failure
        if answer.get("fault") == "no_such_page":
            raise NotFound("there is no such page")
        if "fault" in answer:
            raise DocumentFault(answer["fault"], answer["message"])


async def _child_of(slot: PoolSlot) -> ChildProcess:
    try:
        return await slot.child()
    except (RuntimeError, ConnectionResetError) as error:
        log.exception(RENDERER_FAILED, on="start")
        raise Unavailable("no renderer could be started; try again in a few seconds", public=True) from error


def _bounded(into: IO[bytes]) -> Callable[[bytes], None]:
    left = _MOST_BYTES

    def take(chunk: bytes) -> None:
        nonlocal left
        left -= len(chunk)
        if left < 0:
            raise DocumentFault("too_large", "The result would be too large: split the document.")
        into.write(chunk)

    return take
