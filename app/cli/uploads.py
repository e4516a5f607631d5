"""`daira upload`: files to the service, progress on a terminal, text or JSON in a pipe."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from app.cli import addresses
from app.client.client import ApiFault, Client

Show = Callable[[int, int], None]
"""Told how much of how much is done."""

LONG_POLL = 1.0
"""Seconds for each look at a job: short, for the progress that it brings."""


def upload(
    files: Annotated[list[Path], typer.Argument(help="PDFs, images, Office documents, mails, texts.", metavar="FILE…")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the text and print it.")] = False,
    job: Annotated[
        list[str] | None, typer.Option("--job", help="Job kind to run; may be repeated. [default: ocr]")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language of the documents, for example eng.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a document.")] = False,
    url: Annotated[str | None, typer.Option(help="The service. Default: DAIRA_URL, or the running `daira up`.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The --data-dir of the `daira up` to talk to.")] = None,
) -> None:
    """Upload documents; with --wait, print their text. Exits with 1 if any document failed.

    The API key is DAIRA_API_KEY, or that of the running `daira up`.

    - `daira upload --wait scan.pdf`
    - `daira upload --json *.pdf | jq .id`
    """
    address = addresses.find(url=url, api_key=None, data_dir=data_dir)
    requests = [{"kind": kind} for kind in job] if job else None
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console
    )
    with Client(address.url, address.api_key) as client, bars if console.is_terminal else nullcontext():
        answers = []
        for file in files:
            show = _bar(bars, file) if console.is_terminal else _nothing
            answer = _send(client, file, requests=requests, language=language, wait=wait, show=show)
            _print(answer, as_json=as_json, console=console)
            answers.append(answer)
    sys.exit(1 if any(answer.fault for answer in answers) else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    file: Path
    document: dict[str, Any] | None = None
    text: str | None = None
    fault: str | None = None


def _send(
    client: Client,
    file: Path,
    *,
    requests: Sequence[Mapping[str, object]] | None,
    language: str | None,
    wait: bool,
    show: Show,
) -> _Answer:
    try:
        size = file.stat().st_size
        document = client.upload(file, jobs=requests, language=language, sent=lambda sent: show(sent, size))
        if wait:
            document = _await(client, document, show)
        fault = _fault(document)
        text = client.text(document["id"]) if wait and not fault else None
    except ApiFault as refused:
        return _Answer(file=file, fault=str(refused))
    except OSError as unread:
        return _Answer(file=file, fault=unread.strerror or str(unread))
    return _Answer(file=file, document=document, text=text, fault=fault)


def _await(client: Client, document: dict[str, Any], show: Show) -> dict[str, Any]:
    """Every job of the document ended."""
    for job in document["jobs"]:
        while job["state"] in {"queued", "claimed"}:
            job = client.job(job["id"], wait=LONG_POLL)  # noqa: PLW2901 - the same job, newer
            if progress := job["progress"]:
                show(progress["done"], progress["total"])
    return client.document(document["id"])


def _fault(document: dict[str, Any]) -> str | None:
    if document["status"] != "failed":
        return None
    errors = [job["error"] for job in document["jobs"] if job["error"]]
    return f"{errors[0]['message']} ({errors[0]['code']})" if errors else "no job has read it"


def _print(answer: _Answer, *, as_json: bool, console: Console) -> None:
    document = answer.document or {}
    if as_json:
        fields = {"file": str(answer.file), **document, "text": answer.text, "fault": answer.fault}
        print(json.dumps(fields), flush=True)
    elif answer.fault:
        console.print(f"{answer.file}: {answer.fault}", style="red", markup=False)
    elif answer.text is not None:
        print(answer.text, flush=True)
    else:
        known = " (already there)" if document["deduplicated"] else ""
        print(f"{document['id']} {document['status']} {answer.file}{known}", flush=True)


def _bar(bars: Progress, file: Path) -> Show:
    bar = bars.add_task(file.name, total=None)
    return lambda done, total: bars.update(bar, completed=done, total=total or None)


def _nothing(_done: int, _total: int) -> None:
    """For a pipe."""
