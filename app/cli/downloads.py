"""`daira download`: a document to a file, or into a pipe, in one of the forms that the service hands out."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli import addresses
from app.client.client import Client
from app.client.retries import NO_RETRIES
from app.client.transfers import Download
from app.domain.documents import displayable_filename


class DownloadChoice(StrEnum):
    ORIGINAL = "original"
    TEXT = "text"
    PDF = "pdf"
    HOCR = "hocr"
    ALTO = "alto"
    MARKDOWN = "markdown"


ROUTES = {DownloadChoice.ORIGINAL: "content", DownloadChoice.PDF: "searchable.pdf"}
"""Routes whose name differs from the form's."""

PRINTED = frozenset({DownloadChoice.TEXT, DownloadChoice.MARKDOWN})
"""Read on the terminal; what else comes is no good there."""


def download(
    document: Annotated[
        str, typer.Argument(metavar="DOCUMENT", help="The document's id, as `daira upload` prints it.")
    ],
    form: Annotated[
        DownloadChoice,
        typer.Option(
            "--as",
            help="`original`: the uploaded file. `pdf`: searchable, with the recognised text as an invisible layer."
            " `text`, `markdown`: the text. `hocr`, `alto`: the text with the place of each word.",
        ),
    ] = DownloadChoice.ORIGINAL,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to this file and replace it; `-` is standard output. Default: text is printed, anything"
            " else goes to a new file of the document's own name, or into the pipe if there is one.",
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="The service's address. Default: DAIRA_URL, or the running `daira up`.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The data folder of the running `daira up` to use.")] = None,
) -> None:
    """Download a document, or its text in another form. A download that breaks off leaves no file.

    The API key is DAIRA_API_KEY, or the key of the running `daira up`.

    - `daira download 019a… --as pdf -o searchable.pdf`
    - `daira download 019a… --as markdown | less`
    """
    address = addresses.find(url=url, api_key=None, data_dir=data_dir)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    with (
        Client(address.url, address.api_key, patience=NO_RETRIES) as client,
        client.download(document, ROUTES.get(form, form)) as answer,
    ):
        target = _target(answer, form=form, output=output, document=document)
        if target is None:
            _copy(answer, sys.stdout.buffer)
            return
        with _bar(console, target, size=answer.size) as show, _file(target, new=output is None) as file:
            _copy(answer, file, show=show)
    if console.is_terminal:
        console.print(f"saved {target}", markup=False)


def _target(answer: Download, *, form: DownloadChoice, output: Path | None, document: str) -> Path | None:
    """None: standard output."""
    if output is not None:
        return None if str(output) == "-" else output
    if form in PRINTED or not sys.stdout.isatty():
        return None
    # Whatever the server calls it: a name, and in this folder.
    return Path(displayable_filename(answer.filename or document))


def _copy(answer: Download, file: IO[bytes], *, show: Callable[[int], object] = lambda _: None) -> None:
    done = 0
    for chunk in answer.chunks():
        file.write(chunk)
        done += len(chunk)
        show(done)
    file.flush()


@contextmanager
def _file(target: Path, *, new: bool) -> Iterator[IO[bytes]]:
    """There with its whole content, or not at all."""
    if new and target.exists():
        raise FileExistsError(f"{target} is there already: name another file with -o")
    if target.exists() and not target.is_file():
        # A device or a pipe is written to, never replaced.
        with target.open("wb") as file:
            yield file
        return
    target = target.resolve()
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name[:50]}-", delete=False) as part:
        try:
            yield part.file
            part.close()
            _with_usual_rights(Path(part.name)).replace(target)
        except BaseException:
            with suppress(OSError):
                Path(part.name).unlink()
            raise


def _with_usual_rights(path: Path) -> Path:
    """A temporary file is its owner's alone; this one becomes a file like any other."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)
    return path


@contextmanager
def _bar(console: Console, target: Path, *, size: int | None) -> Iterator[Callable[[int], object]]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    bars = Progress(*columns, console=console)
    with bars if console.is_terminal else nullcontext():
        bar = bars.add_task(target.name, total=size)
        yield lambda done: bars.update(bar, completed=done)
