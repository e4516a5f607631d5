"""`daira usage`: what a tenant has used, by day, through the API."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from app.cli import addresses, tables
from app.client.client import Client

BAR = 24
"""Characters of the longest one."""
PARTS = " ▏▎▍▌▋▊▉"
FULL = "█"


def usage(
    first: Annotated[str | None, typer.Option("--from", help="The first day (UTC), such as 2026-11-30.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last day. Default: today.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with days without activity.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="The data folder of the running `daira up` to use.")] = None,
) -> None:
    """Show documents, pages and model tokens by day: the last 30 days, or the days you name."""
    address = addresses.find(url=None, api_key=None, data_dir=data_dir)
    with Client(address.url, address.api_key) as client:
        told = client.usage(first=first, last=last)
    if as_json:
        print(json.dumps(told))
        return
    tables.show(_table(told))


def _table(told: Mapping[str, Any]) -> Table:
    names = ("documents", "bytes", "pages", "tokens in", "tokens out")
    table = Table("day", *(Column(name, justify="right") for name in names), Column("", no_wrap=True), show_footer=True)
    most = max((day["pages"] for day in told["data"]), default=0)
    for day in told["data"]:
        if any(_numbers(day)):
            table.add_row(day["day"], *_cells(day), bar(day["pages"], most=most))
    table.columns[0].footer = "all"
    for column, cell in zip(table.columns[1:], _cells(told["total"]), strict=False):
        column.footer = cell
    return table


def bar(number: int, *, most: int) -> str:
    """A bar for the pages, in eighths of a character."""
    eighths = BAR * 8 * number // most if most else 0
    return FULL * (eighths // 8) + PARTS[eighths % 8].strip()


def _cells(used: Mapping[str, Any]) -> list[str]:
    return [f"{number:,}" for number in _numbers(used)]


def _numbers(used: Mapping[str, Any]) -> list[int]:
    tokens = used["tokens"]
    return [used["documents"], used["bytes"], used["pages"], tokens["input"], tokens["output"]]
