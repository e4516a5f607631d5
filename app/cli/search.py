"""`daira search`: pages by their words, through the API."""

import html
import json
import re
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from app.cli import addresses
from app.client.client import Client

MOST = 100
"""Hits that one request brings."""

MARK = re.compile(r"<mark>(.*?)</mark>")


def search(
    words: Annotated[list[str], typer.Argument(help='Words; `"a phrase"`, `or`, and `-word` as one argument.')],
    limit: Annotated[int, typer.Option(min=1, help="Pages to show.")] = 10,
    document: Annotated[str | None, typer.Option(help="The id of the one document to search.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="The --data-dir of the `daira up` to talk to.")] = None,
) -> None:
    """Find pages by their words, best first. Exit 1 when there are none."""
    address = addresses.find(url=None, api_key=None, data_dir=data_dir)
    filters: dict[str, str | int | None] = {"limit": min(limit, MOST), "document_id": document}
    with Client(address.url, address.api_key) as client:
        found = list(islice(client.search(" ".join(words), **filters), limit))
    if as_json:
        print(json.dumps(found))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for hit in found:
            console.print(Text(f"{hit['filename']}, page {hit['page']}", style="bold"))
            console.print(Text("    ").append_text(marked(hit["snippet"])))
    if not found:
        raise typer.Exit(1)


def marked(snippet: str) -> Text:
    """Highlight the matches; a pipe gets plain text."""
    text = Text()
    for n, part in enumerate(MARK.split(snippet)):
        text.append(html.unescape(part), style="bold yellow" if n % 2 else None)
    return text
