"""Fenced blocks of the documentation, what is said of each, and a desk to try them at.

A line before a block says what becomes of it:
`<!-- run -->`: it is run, and prints what the block of `text` right behind it says, or nothing.
`<!-- run 2>&1 -->`: the same, with what goes to standard error.
`<!-- not run: why -->`: it is shown only.

Blocks of one page share a folder, a shell and a Python interpreter, in the order of the page. In what they print,
`…` stands for anything within a line.
"""

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]

SHELL, PYTHON = frozenset({"sh", "bash", "shell", "console"}), frozenset({"python", "py"})

BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>.*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
RUN, RUN_WITH_ERRORS, NOT_RUN = "run", "run 2>&1", "not run: "

PATIENCE = 60
"""Seconds for one block."""

_BASH = ["/usr/bin/env", "bash", "-euo", "pipefail"]
_PYTHON = """
import contextlib, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    file, *printed = json.loads(line)
    out, err = (open(path, "a", buffering=1) for path in printed)
    with out, err, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            exec(compile(open(file).read(), file, "exec"), names)
        except BaseException:
            traceback.print_exc()
            sys.exit(1)
    print("done", flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    page: str
    line: int
    language: str
    code: str
    mark: str
    printed: str
    """What the page says that it prints."""

    @property
    def runs(self) -> bool:
        return self.mark in {RUN, RUN_WITH_ERRORS}

    @property
    def is_settled(self) -> bool:
        """It is run, or there is a reason why not."""
        return self.runs or (self.mark.startswith(NOT_RUN) and len(self.mark) > len(NOT_RUN))


def snippets(page: str) -> list[Snippet]:
    return parse((ROOT / page).read_text(), page=page)


def parse(text: str, *, page: str) -> list[Snippet]:
    return [
        Snippet(
            page=page,
            line=text.count("\n", 0, found.start("code")),
            language=found["language"],
            code=found["code"],
            mark=found["mark"] or "",
            printed=found["printed"] or "",
        )
        for found in BLOCK.finditer(text)
        if found["language"] in SHELL | PYTHON
    ]


class Desk:
    """A folder as the reader has it, with a shell and an interpreter that stay open."""

    def __init__(self, folder: Path, shell: subprocess.Popen[str], python: subprocess.Popen[str]) -> None:
        self._folder = folder
        self._open = {"sh": shell, "py": python}
        self._count = 0

    def run(self, snippet: Snippet, *, code: str) -> str:
        """What it prints. Raises AssertionError, with what went wrong, for one that fails or takes too long."""
        self._count += 1
        kind = "py" if snippet.language in PYTHON else "sh"
        # Beside the folder, which is the reader's alone.
        file, out, err = (self._folder.with_name(f"{self._count}.{end}") for end in (kind, "out", "err"))
        file.write_text(code)
        err = out if snippet.mark == RUN_WITH_ERRORS else err
        self._tell(kind, (_for_python if kind == "py" else _for_shell)(file, out, err))
        where = f"{snippet.page}:{snippet.line}"
        assert self._is_done(kind), f"{where}: {_read(out)}{_read(err)}"
        assert err == out or _read(err) == "", f"{where} prints an error: {_read(err)}"
        return _read(out)

    def _tell(self, kind: str, line: str) -> None:
        pipe = self._open[kind].stdin
        assert pipe is not None
        pipe.write(line + "\n")
        pipe.flush()

    def _is_done(self, kind: str) -> bool:
        pipe = self._open[kind].stdout
        assert pipe is not None
        ready, _, _ = select.select([pipe], [], [], PATIENCE)
        return bool(ready) and pipe.readline() == "done\n"


@contextmanager
def open_desk(folder: Path, environment: Mapping[str, str]) -> Iterator[Desk]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ours = {**environment, "PATH": path}
    with _started(_BASH, folder, ours) as shell, _started([sys.executable, "-c", _PYTHON], folder, ours) as python:
        yield Desk(folder, shell, python)


@contextmanager
def _started(command: list[str], folder: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def fits(printed: str, expected: str) -> bool:
    return re.fullmatch(re.escape(expected).replace("…", ".*"), printed) is not None


def _for_shell(file: Path, out: Path, err: Path) -> str:
    # The block reads nothing of what is told after it.
    return f"source '{file}' </dev/null >>'{out}' 2>>'{err}'; echo done"


def _for_python(file: Path, out: Path, err: Path) -> str:
    return json.dumps([str(path) for path in (file, out, err)])


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
