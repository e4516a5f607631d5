"""`daira jobs`: a tenant's jobs, through the API."""

import json
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from app.cli import addresses, tables
from app.client.client import Client
from app.client.retries import NO_RETRIES

MOST = 100
"""Jobs that one request brings."""

jobs = typer.Typer(help="List, show, cancel and retry jobs through the API.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DataDir = Annotated[Path | None, typer.Option(help="The data folder of the running `daira up` to use.")]
JobIdText = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]


@jobs.command("list")
def jobs_list(
    state: Annotated[
        str | None, typer.Option(help="Only jobs in this state: queued, claimed, done, failed or cancelled.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only jobs of this kind, such as ocr.")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """List the newest jobs."""
    with _client(data_dir) as client:
        found = list(islice(client.jobs(state=state, kind=kind, limit=min(limit, MOST)), limit))
    if as_json:
        print(json.dumps(found))
        return
    table = Table(Column("job", no_wrap=True), "kind", "state", "attempts", "progress", "error")
    for job in found:
        error = job["error"]["code"] if job["error"] else ""
        table.add_row(job["id"], job["kind"], job["state"], str(job["attempts"]), _progress(job), error)
    tables.show(table)


@jobs.command("show")
def jobs_show(job_id: JobIdText, data_dir: DataDir = None) -> None:
    """Show one job with its attempts, as JSON."""
    with _client(data_dir) as client:
        print(json.dumps(client.job(job_id), indent=2))


@jobs.command("cancel")
def jobs_cancel(job_id: JobIdText, data_dir: DataDir = None) -> None:
    """Cancel a job: at once if it is queued, with its next heartbeat if it runs."""
    with _client(data_dir) as client:
        job = client.cancel(job_id)
    print(f"{job['id']} is {job['state']}" + ("; asked to stop" if job["state"] == "claimed" else ""))


@jobs.command("retry")
def jobs_retry(job_id: JobIdText, data_dir: DataDir = None) -> None:
    """Queue a failed or cancelled job again. A webhook's delivery is sent again."""
    with _client(data_dir) as client:
        job = client.retry(job_id)
    print(f"{job['id']} is {job['state']}")


def _client(data_dir: Path | None) -> Client:
    address = addresses.find(url=None, api_key=None, data_dir=data_dir)
    return Client(address.url, address.api_key, patience=NO_RETRIES)


def _progress(job: dict[str, Any]) -> str:
    progress = job["progress"]
    return f"{progress['done']}/{progress['total']}" if progress else ""
