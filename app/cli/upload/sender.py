"""Many files at once: some threads send, others watch what was sent being read. One bad file never stops the others."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from threading import Condition, Event, Thread
from typing import Any, Protocol

import httpx

from app.cli.upload.find_files import LocalFile
from app.client.client import ENDED, SHORTEST_POLL, Client
from app.client.faults import ApiFault
from app.client.retries import is_busy


class UploadStopped(Exception):
    """The user wants to stop."""


class BackoffGate:
    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._changed = Condition()
        self._closed_until = 0.0
        self._narrow = False
        """One at a time, until one got through."""
        self._taken = False

    @contextmanager
    def passage(self) -> Iterator[Callable[[float], None]]:
        """Waits while it is closed. What is yielded closes it, for so many seconds; who leaves without has opened it.

        Raises Stopped.
        """
        self._enter()
        closed = False

        def close(seconds: float) -> None:
            nonlocal closed
            closed = True
            self._narrow = True
            self._closed_until = max(self._closed_until, time.monotonic() + seconds)

        try:
            yield close
        finally:
            with self._changed:
                if self._taken and not closed:
                    self._narrow = False
                self._taken = False
                self._changed.notify_all()

    def _enter(self) -> None:
        with self._changed:
            while not self._stop.is_set():
                left = self._closed_until - time.monotonic()
                if left <= 0 and not (self._narrow and self._taken):
                    self._taken = self._narrow
                    return
                # Looked at often enough for Ctrl-C.
                self._changed.wait(min(0.2, left) if left > 0 else 0.2)
        raise UploadStopped


WATCHERS = 8
"""Documents whose reading is watched at once; the others are read meanwhile, and looked at when it is their turn."""

SOON = 5.0
"""Seconds, where a busy server does not say when to come again."""

UNAUTHORIZED, FORBIDDEN = 401, 403
REFUSED = frozenset({UNAUTHORIZED, FORBIDDEN})

POLL_EVERY = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOptions:
    """Options that hold for every file."""

    kinds: Sequence[str] | None
    language: str | None
    metadata: Mapping[str, str]
    wait: bool
    again: bool = False
    """Bytes are sent without asking whether they are there: after a restore they may be no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOutcome:
    file: LocalFile
    document: dict[str, Any] | None = None
    sent: bool = False
    """The bytes were sent, and not known before."""
    fault: str | None = None
    stopped: bool = False
    """The user did not want to wait for it."""
    began: float = 0.0
    seconds: float = 0.0


class UploadObserver(Protocol):
    """Called by the threads."""

    def sending(self, file: LocalFile, sent: int) -> None: ...

    def reading(self, file: LocalFile, done: int, total: int) -> None: ...

    def stored(self, file: LocalFile, *, sent: bool) -> None: ...

    def over(self, file: LocalFile) -> None: ...


@dataclass(slots=True, kw_only=True)
class UploadSender:
    client: Client
    order: UploadOptions
    show: UploadObserver
    say: Callable[[str], None]
    stop: Event
    """Set: what is being sent is finished, nothing else is begun."""
    hurry: Event
    """Set: nothing is finished."""

    def outcomes(self, files: Sequence[LocalFile], *, parallel: int) -> Iterator[UploadOutcome]:
        """Outcomes as they come; a file that was not begun when the user stopped has none."""
        crew = _SenderThreads(self, files, BackoffGate(self.stop))
        senders = [Thread(target=crew.send_all, daemon=True) for _ in range(min(parallel, len(files)))]
        watchers = [Thread(target=crew.watch_all, daemon=True) for _ in range(WATCHERS if self.order.wait else 0)]
        for thread in senders + watchers:
            thread.start()
        told, warned = 0, False
        while not self.hurry.is_set():
            if self.stop.is_set() and not warned:
                self.say("finishing what is being sent; Ctrl-C again stops at once")
                warned = True
            over = not any(thread.is_alive() for thread in senders)
            if over and told == crew.begun:
                crew.finished.set()
                return
            try:
                yield crew.ended.get(timeout=POLL_EVERY)
            except Empty:
                continue
            told += 1


class _SenderThreads:
    def __init__(self, sending: UploadSender, files: Sequence[LocalFile], valve: BackoffGate) -> None:
        self._client = sending.client
        self._order = sending.order
        self._show = sending.show
        self._say = sending.say
        self._stop = sending.stop
        self._valve = valve
        self._may_ask = not sending.order.again
        self._todo = deque(files)
        self._unread: SimpleQueue[UploadOutcome] = SimpleQueue()
        self._taken: deque[LocalFile] = deque()
        self.ended: SimpleQueue[UploadOutcome] = SimpleQueue()
        self.finished = Event()

    @property
    def begun(self) -> int:
        return len(self._taken)

    def send_all(self) -> None:
        while not self._stop.is_set():
            try:
                file = self._todo.popleft()
            except IndexError:
                return
            self._taken.append(file)
            outcome = self._timed(file, lambda: self._sent(file))  # noqa: B023 - called before the next one
            if self._order.wait and outcome.document and not outcome.fault:
                self._unread.put(outcome)
            else:
                self._end(outcome)

    def watch_all(self) -> None:
        while not self.finished.is_set():
            try:
                outcome = self._unread.get(timeout=POLL_EVERY)
            except Empty:
                continue
            self._end(self._timed(outcome.file, lambda: self._read(outcome), so_far=outcome))  # noqa: B023 - as above

    def _end(self, outcome: UploadOutcome) -> None:
        self._show.over(outcome.file)
        self.ended.put(outcome)

    def _timed(
        self, file: LocalFile, work: Callable[[], UploadOutcome], *, so_far: UploadOutcome | None = None
    ) -> UploadOutcome:
        before = so_far or UploadOutcome(file=file, began=time.monotonic())
        try:
            outcome = work()
        except UploadStopped:
            outcome = replace(before, stopped=True)
        except (ApiFault, httpx.TransportError) as refused:
            outcome = replace(before, fault=str(refused) or type(refused).__name__)
        except OSError as unread:
            outcome = replace(before, fault=unread.strerror or str(unread))
        except Exception as unforeseen:  # noqa: BLE001 - whatever it is, it is this file's, and the others go on
            outcome = replace(before, fault=f"{type(unforeseen).__name__}: {unforeseen}")
        return replace(outcome, began=before.began, seconds=time.monotonic() - before.began)

    def _sent(self, file: LocalFile) -> UploadOutcome:
        digest = file.sha256()
        while True:
            with self._valve.passage() as close:
                try:
                    return self._stored(file, digest)
                except ApiFault as fault:
                    if fault.status in REFUSED:
                        # So would be all others: the key has ended, or is for something else.
                        self._todo.clear()
                    if not is_busy(fault):
                        raise
                    close(wait := fault.retry_after or SOON)
                    self._say(f"the service has enough to do ({fault.detail}): going on in {wait:.0f} s")

    def _stored(self, file: LocalFile, digest: str) -> UploadOutcome:
        known = self._known(digest)
        # One that could not be read is sent again: that asks for another try.
        if known is None or known["status"] == "failed":
            document = self._client.upload(
                file.source,
                filename=file.filename,
                jobs=None if self._order.kinds is None else [{"kind": kind} for kind in self._order.kinds],
                language=self._order.language,
                metadata=self._order.metadata,
                sent=lambda sent: self._show.sending(file, sent),
            )
        else:
            document = known | {"deduplicated": True}
        sent = not document["deduplicated"]
        if not sent:
            document = self._with_jobs(document)
        self._show.stored(file, sent=sent)
        return UploadOutcome(file=file, document=document, sent=sent)

    def _known(self, digest: str) -> dict[str, Any] | None:
        if not self._may_ask:
            return None
        try:
            found = next(self._client.documents(sha256=digest, limit=1), None)
        except ApiFault as fault:
            if fault.status != FORBIDDEN:
                raise
            # A scanner's key may send and not read: then the service itself finds that the bytes are there.
            self._may_ask = False
            return None
        # An older service knows no such filter, and gives any document.
        return found if found and found["sha256"] == digest else None

    def _with_jobs(self, document: dict[str, Any]) -> dict[str, Any]:
        """Request the jobs that a document on the server lacks."""
        there = {job["kind"] for job in document["jobs"]}
        missing = [kind for kind in self._order.kinds or () if kind not in there]
        new = [self._client.request_job(document["id"], {"kind": kind}) for kind in missing]
        return document | {"jobs": [*reversed(new), *document["jobs"]]}

    def _read(self, outcome: UploadOutcome) -> UploadOutcome:
        """Every job of the document ended."""
        document = outcome.document
        assert document is not None
        for job in document["jobs"]:
            self._follow(outcome.file, job)
        read = self._patiently(lambda: self._client.document(document["id"]))
        return replace(outcome, document=read | {"deduplicated": document["deduplicated"]})

    def _follow(self, file: LocalFile, job: dict[str, Any]) -> None:
        seen = job
        while seen["state"] not in ENDED:
            if self._stop.is_set():
                raise UploadStopped
            seen = self._patiently(lambda: self._client.job(job["id"], wait=SHORTEST_POLL))
            if progress := seen["progress"]:
                self._show.reading(file, progress["done"], progress["total"])

    def _patiently(self, look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        while True:
            try:
                return look()
            except ApiFault as fault:
                if not is_busy(fault):
                    raise
                if self._stop.wait(fault.retry_after or SOON):
                    raise UploadStopped from None
