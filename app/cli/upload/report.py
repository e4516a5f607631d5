"""The report of an upload: a line, a text or an object for each file, a table and a sum at the end.

Standard output has the answers: lines and objects as files end, texts in the order in which the files were named.
Standard error has what one should know besides.
"""

import json
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx
from rich.box import SIMPLE
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Column, Table

from app.cli.upload.find_files import FileList, LocalFile, SkippedFile
from app.cli.upload.sender import UploadOutcome, UploadStopped
from app.client.faults import ApiFault

MOST_ROWS, MOST_LEFT_OUT, MOST_NUMBERS = 100, 20, 10

GO_ON = "To go on, run the same command again: what is there already is not sent again."


class UploadReport:
    def __init__(
        self, console: Console, gathered: FileList, *, text: Callable[[str], str] | None, as_json: bool
    ) -> None:
        """`text`: that of a document, by its id; None where it is not asked for."""
        self._console = console
        self._files: Sequence[LocalFile] = gathered.files
        self._left_out: Sequence[SkippedFile] = gathered.left_out
        self._hidden = gathered.hidden
        self._text = text
        self._as_json = as_json
        self._many = len(gathered.files) + len(gathered.left_out) > 1
        self._shows_table = self._many and console.is_terminal
        self._outcomes: list[UploadOutcome] = []
        self._turns = deque(gathered.files)
        self._held: dict[int, UploadOutcome] = {}

    @property
    def has_faults(self) -> bool:
        return any(outcome.fault for outcome in self._outcomes) or any(left.is_fault for left in self._left_out)

    def begin(self) -> None:
        for left in self._left_out:
            if left.is_fault:
                self._say_fault(left.shown, left.why)
            if left.is_fault and self._as_json:
                _print_json({"file": left.shown, "text": None, "fault": left.why})
        others = [left for left in self._left_out if not left.is_fault]
        for left in others[:MOST_LEFT_OUT]:
            self.say(f"left out: {left.shown}: {left.why}")
        if len(others) > MOST_LEFT_OUT:
            self.say(f"left out: {len(others) - MOST_LEFT_OUT:,} more")
        if self._hidden:
            self.say(f"left out: {self._hidden:,} hidden")
        if not self._files and not self.has_faults:
            self.say("nothing to send: no file was found")

    def add(self, outcome: UploadOutcome) -> None:
        outcome = replace(outcome, fault=outcome.fault or _fault(outcome))
        if outcome.fault:
            self._say_fault(outcome.file.shown, outcome.fault)
        if self._as_json or self._text is None:
            self._answer(outcome)
            return
        self._held[id(outcome.file)] = outcome
        while self._turns and id(self._turns[0]) in self._held:
            self._answer(self._held.pop(id(self._turns.popleft())))

    def end(self, *, seconds: float, stopped: bool, in_a_hurry: bool) -> None:
        held = [self._held[id(file)] for file in self._turns if id(file) in self._held]
        if in_a_hurry:
            # Their texts would have to be asked for.
            self._outcomes += held
        else:
            for outcome in held:
                self._answer(outcome)
        if self._shows_table:
            self._print_table()
        if self._many or stopped:
            self.say(self._sum(seconds))
        if stopped:
            self.say(GO_ON)

    def say(self, line: str) -> None:
        self._console.print(line, style="dim", markup=False)

    def _answer(self, outcome: UploadOutcome) -> None:
        outcome, text = self._with_text(outcome)
        self._outcomes.append(outcome)
        self._warn(outcome, text)
        if self._as_json:
            _print_json({"file": outcome.file.shown, **(outcome.document or {}), "text": text, "fault": outcome.fault})
        elif text is not None:
            self._print_text(outcome, text)
        elif outcome.document and not outcome.fault and not (self._shows_table and sys.stdout.isatty()):
            print(_line(outcome), flush=True)

    def _print_text(self, outcome: UploadOutcome, text: str) -> None:
        if self._many:
            print(f"==> {outcome.file.shown} <==")
        if text.strip():
            print(text, flush=True)

    def _with_text(self, outcome: UploadOutcome) -> tuple[UploadOutcome, str | None]:
        document = outcome.document
        if self._text is None or document is None or document["status"] != "ready":
            return outcome, None
        try:
            return outcome, self._text(document["id"])
        except UploadStopped:
            return outcome, None
        except (ApiFault, httpx.TransportError) as fault:
            self._say_fault(outcome.file.shown, str(fault))
            return replace(outcome, fault=outcome.fault or str(fault)), None

    def _warn(self, outcome: UploadOutcome, text: str | None) -> None:
        if text is None or outcome.document is None:
            return
        for warning in outcome.document["warnings"]:
            self.say(f"{outcome.file.shown}: {warning['code']}: {warning['detail']}{_pages(warning['pages'])}")
        if not text.strip():
            self.say(f"{outcome.file.shown}: no text was found in it")

    def _say_fault(self, name: str, fault: str) -> None:
        self._console.print(f"{name}: {fault}", style="red", markup=False)

    def _print_table(self) -> None:
        table = Table("file", Column("document", no_wrap=True), "status", "pages", "seconds", "fault", box=SIMPLE)
        # Faults are what is looked for; they are not those that there is no room for.
        rows = sorted(self._outcomes, key=lambda outcome: outcome.fault is None)[:MOST_ROWS]
        for outcome in rows:
            table.add_row(*map(escape, _row(outcome)))
        # Without the console's soft wrap, which would break a table's lines.
        Console(stderr=True, highlight=False).print(table)
        if len(self._outcomes) > MOST_ROWS:
            self.say(f"and {len(self._outcomes) - MOST_ROWS:,} more: --json tells all")

    def _sum(self, seconds: float) -> str:
        done = [outcome for outcome in self._outcomes if outcome.document]
        sent = [outcome for outcome in done if outcome.sent]
        failed = sum(bool(outcome.fault) for outcome in self._outcomes) + sum(left.is_fault for left in self._left_out)
        size = sum(outcome.file.size for outcome in sent)
        parts = [f"{len(sent):,} sent", f"{len(done) - len(sent):,} were there already", f"{failed:,} failed"]
        if unsent := len(self._files) - sum(bool(outcome.document or outcome.fault) for outcome in self._outcomes):
            parts.append(f"{unsent:,} not sent")
        rate = decimal(int(size / max(seconds, 0.001)))
        return f"{', '.join(parts)}: {decimal(size)} in {seconds:.1f} s ({rate}/s)"


def _fault(outcome: UploadOutcome) -> str | None:
    """The reason why a document has no text, or the job of it that failed."""
    document = outcome.document
    if document is None or outcome.stopped:
        return None
    newest = {job["kind"]: job for job in reversed(document["jobs"])}.values()
    errors = [f"{job['error']['message']} ({job['error']['code']})" for job in newest if job["error"]]
    if document["status"] == "failed":
        return errors[0] if errors else "no job has read it"
    failed = [job for job in newest if job["state"] == "failed" and job["error"]]
    return f"{failed[0]['kind']}: {failed[0]['error']['message']} ({failed[0]['error']['code']})" if failed else None


def _line(outcome: UploadOutcome) -> str:
    document = outcome.document or {}
    known = " (already there)" if document["deduplicated"] else ""
    return f"{document['id']} {document['status']} {outcome.file.shown}{known}"


def _row(outcome: UploadOutcome) -> tuple[str, ...]:
    document = outcome.document or {}
    pages = document.get("page_count")
    return (
        outcome.file.shown,
        document.get("id", ""),
        document.get("status", ""),
        "" if pages is None else f"{pages:,}",
        f"{outcome.seconds:.1f}",
        outcome.fault or "",
    )


def _pages(numbers: Sequence[int]) -> str:
    listed = ", ".join(str(number) for number in numbers[:MOST_NUMBERS])
    more = ", …" if len(numbers) > MOST_NUMBERS else ""
    return f" ({'page' if len(numbers) == 1 else 'pages'} {listed}{more})" if numbers else ""


def _print_json(fields: Mapping[str, Any]) -> None:
    print(json.dumps(fields), flush=True)
