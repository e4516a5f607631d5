"""Long documents through the whole program: time with one reader process and with two, and the memory used.

Run: ./daira bench long_documents [--scanned 1000] [--digital 600]

`daira up` is started anew for each row. Seconds are from the job's start to its end, by the database's clock. Memory is
the greatest resident size of the process that is web and worker in one, and of the largest reader, in MiB.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import httpx

from tests.support.sample_documents import SENTENCE, Sheet, drawn, pdf
from tests.support.service import Service, up

LINES_OF_TEXT = 40
READER = "app.reading.children.child"


class Peak:
    """Records the greatest memory of processes, twice a second because the system forgets processes that have ended."""

    def __init__(self, pid: int) -> None:
        self.service = self.reader = 0.0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.service = max(self.service, _most_resident(self._pid))
            self.reader = max([self.reader, *map(_most_resident, _readers(self._pid))])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--scanned", type=int, default=1_000, help="pages of the scan")
    arguments.add_argument("--digital", type=int, default=600, help="pages of the born-digital document")
    arguments.add_argument("--readers", type=int, nargs="+", default=[1, 2], help="reader processes")
    options = arguments.parse_args()
    print("drawing the scan …", file=sys.stderr)
    scan = pdf(*[Sheet(image=drawn(*[SENTENCE] * 6, f"Number {n}", size=(1275, 1650))) for n in range(options.scanned)])
    digital = pdf(*[Sheet(lines=(SENTENCE,) * LINES_OF_TEXT)] * options.digital)
    print(f"{'document':>16} {'readers':>8} {'seconds':>8} {'pages/s':>8} {'speed-up':>8} {'service':>8} {'reader':>8}")
    for name, pages, content in (("scanned", options.scanned, scan), ("digital", options.digital, digital)):
        first = 0.0
        for readers in options.readers:
            seconds, peak = _measured(content, readers=readers, pages=pages)
            first = first or seconds
            print(
                f"{pages:>8} {name} {readers:>8} {seconds:>8.1f} {pages / seconds:>8.1f} {first / seconds:>8.2f}"
                f" {peak.service:>8.0f} {peak.reader:>8.0f}"
            )


def _measured(content: bytes, *, readers: int, pages: int) -> tuple[float, Peak]:
    with _served(readers) as service, service.client() as client, Peak(service.process.pid) as peak:
        answer = client.post("/v1/documents", files={"file": ("long.pdf", content)}, timeout=300)
        answer.raise_for_status()
        job = _ended(client, answer.json()["jobs"][0]["id"])
    if job["state"] != "done" or job["progress"]["done"] != pages:
        raise SystemExit(f"the job ended as {job['state']}: {job['error']}")
    started, finished = (datetime.fromisoformat(job[name]) for name in ("started_at", "finished_at"))
    return (finished - started).total_seconds(), peak


@contextmanager
def _served(readers: int) -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="daira-bench-") as folder:
        # If started by root, Postgres runs as another user, which needs access.
        Path(folder).chmod(0o755)
        with up(Path(folder) / "data", DAIRA_LANES=f"ocr={readers}", DAIRA_MAX_UPLOAD_BYTES=str(1 << 31)) as service:
            yield service


def _ended(client: httpx.Client, job_id: str) -> dict[str, Any]:
    while True:
        job: dict[str, Any] = client.get(f"/v1/jobs/{job_id}").json()
        if job["progress"]:
            print(f"\r{job['progress']['done']} of {job['progress']['total']} pages ", end="", file=sys.stderr)
        if job["state"] in {"done", "failed", "cancelled"}:
            print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
            return job
        time.sleep(0.5)


def _readers(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if READER in _command(child)]


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _most_resident(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


if __name__ == "__main__":
    main()
