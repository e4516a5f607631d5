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
    words: Annotated[
        list[str], typer.Argument(help='Words to find; `"a phrase"`, `or` and `-word` in one quoted argument.')
    ],
    limit: Annotated[int, typer.Option(min=1, help="The most pages to show.")] = 10,
    document: Annotated[str | None, typer.Option(help="Search only the document with this id.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="The data folder of the running `daira up` to use.")] = None,
) -> None:
    """Search pages by their words, best match first. Exits with 1 when none is found."""
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
