"""Links, anchors, paths and names that a page gives, and which of them lead nowhere.

A path of the repository begins with one of its folders: `app/web/errors.py` in backticks, or in plain text with its
ending. `*` and `{a,b}` stand for what they do in a shell. A bare file name, `errors.py`, is a file in a folder that
the same page gives, or beside a file that it gives. A name in a file is given as `app/web/errors.py::STATUS`, or as
`STATUS` in `app/web/errors.py`, or as `STATUS` (`app/web/errors.py`). The name of a test, `test_…`, is defined
somewhere in tests/.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

FOLDERS = r"(?:app|tests|docs|deploy|benchmarks|alembic|requirements|\.ci)"
ENDINGS = r"(?:py|md|sql|toml|ya?ml|json|svg|png|txt|in|sh|service|ini)"

GENERATED = {"benchmarks/results/"}
"""Folders that a command of ours writes, which no checkout has."""

FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
SPAN = re.compile(r"(`+)(?!`)(?P<code>.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\((?!<)(?P<target>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
ELSEWHERE = re.compile(r"[a-z][a-z+.-]*:|//")

PATH = rf"{FOLDERS}/[\w./*{{}},-]*[\w/*}}]"
PATH_IN_CODE = re.compile(rf"(?P<path>{PATH})(?:::(?P<name>[\w.]+))?")
PATH_IN_TEXT = re.compile(rf"(?<![\w./-])(?P<path>{FOLDERS}/[\w./-]*\.{ENDINGS})\b(?:::(?P<name>[\w.]+))?(?![\w/])")
FILE_IN_CODE = re.compile(r"(?P<path>\w+\.py)(?:::(?P<name>[\w.]+))?")
NAME_IN_FILE = re.compile(
    rf"`(?P<name>[A-Za-z_][\w.]*)(?:\(\))?`,?\s(?:in\s`?|\(`)(?P<path>{PATH}|\w+\.py)(?<!\.)`?", re.DOTALL
)

TEST_IN_CODE = re.compile(r"test_\w+")
TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)

HEADING = re.compile(r"^(?:#{1,6})[ \t]+(?P<text>.+?)[ \t]*#*$", re.MULTILINE)
IDENTITY = re.compile(r"<[^>]+\b(?:id|name)=[\"']([^\"']+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A path that a page gives, or a name in the file at that path."""

    line: int
    path: str
    name: str | None


def pages(root: Path) -> list[str]:
    outside = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
    there = [name for name in outside if (root / name).exists()]
    return [*there, *sorted(path.relative_to(root).as_posix() for path in (root / "docs").rglob("*.md"))]


def dead(root: Path, page: str) -> list[str]:
    """What leads nowhere, a line for each."""
    text = COMMENT.sub(_blank, (root / page).read_text())
    return [*_dead_links(root, page, text), *_dead_mentions(root, page, text), *_dead_tests(root, page, text)]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the forges make them, and those written as HTML."""
    found: set[str] = set(IDENTITY.findall(text))
    for heading in HEADING.finditer(FENCE.sub(_blank, text)):
        slug = _slug(heading["text"])
        same = sum(1 for other in found if re.fullmatch(rf"{re.escape(slug)}(?:-\d+)?", other))
        found.add(f"{slug}-{same}" if slug in found else slug)
    return found


def _slug(heading: str) -> str:
    shown = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).strip().replace(" ", "-")


def _dead_links(root: Path, page: str, text: str) -> Iterator[str]:
    prose = SPAN.sub(_blank, FENCE.sub(_blank, text))
    for link in LINK.finditer(prose):
        target, anchor = link["target"], link["anchor"]
        if ELSEWHERE.match(target):
            continue
        where = f"{page}:{_line(prose, link.start())}"
        there = root / page if not target else root / Path(page).parent / target
        if not there.exists():
            yield f"{where}: no file {target}"
        elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
            yield f"{where}: no heading #{anchor} in {target or page}"


def _dead_mentions(root: Path, page: str, text: str) -> Iterator[str]:
    found = list(dict.fromkeys(_mentions(text)))
    folders = {_folder(root / path) for each in found for path in _expanded(each.path) if "/" in path}
    for mention in sorted(found, key=lambda each: each.line):
        where = f"{page}:{mention.line}"
        for path in _expanded(mention.path):
            files = _files(root, path, beside=folders)
            if not files and path not in GENERATED:
                yield f"{where}: no file {path}"
            elif mention.name and not any(mention.name in _names(file) for file in files):
                yield f"{where}: no {mention.name} in {path}"


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _dead_tests(root: Path, page: str, text: str) -> Iterator[str]:
    prose = FENCE.sub(_blank, text)
    for span in SPAN.finditer(prose):
        if TEST_IN_CODE.fullmatch(span["code"]) and span["code"] not in _tests(root):
            yield f"{page}:{_line(text, span.start())}: no test {span['code']}"


@cache
def _tests(root: Path) -> frozenset[str]:
    return frozenset(name for path in (root / "tests").rglob("test_*.py") for name in TEST.findall(path.read_text()))


def _mentions(text: str) -> Iterator[Mention]:
    prose = FENCE.sub(_blank, text)
    for found in NAME_IN_FILE.finditer(prose):
        yield _mention(text, found.start(), found)
    for span in SPAN.finditer(prose):
        found_in_code = PATH_IN_CODE.fullmatch(span["code"]) or FILE_IN_CODE.fullmatch(span["code"])
        if found_in_code:
            yield _mention(text, span.start(), found_in_code)
    # Fenced blocks too: a command names the files that it works on. Targets of links are relative to their page.
    unlinked = LINK.sub(_blank, text)
    for found in PATH_IN_TEXT.finditer(unlinked):
        yield _mention(text, found.start(), found)


def _mention(text: str, start: int, found: re.Match[str]) -> Mention:
    return Mention(line=_line(text, start), path=found["path"], name=found["name"])


def _expanded(path: str) -> list[str]:
    parts = [part.split(",") for part in re.split(r"[{}]", path)] if "{" in path else [[path]]
    return ["".join(choice) for choice in product(*parts)]


def _files(root: Path, path: str, *, beside: set[Path]) -> list[Path]:
    if "/" in path:
        return sorted(root.glob(path))
    return [folder / path for folder in sorted(beside) if (folder / path).is_file()]


@cache
def _names(file: Path) -> frozenset[str]:
    """The names that a Python file defines, methods with their class and without; all words of a file with SQL."""
    if not file.is_file():
        return frozenset()
    text = file.read_text()
    if file.suffix == ".py" and "alembic" not in file.parts:
        return frozenset(_defined(ast.parse(text)))
    return frozenset(re.findall(r"\w+(?:\.\w+)*", text))


def _defined(within: ast.AST, prefix: str = "") -> Iterator[str]:
    for node in ast.iter_child_nodes(within):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from {node.name, prefix + node.name}
                yield from _defined(node, f"{node.name}.")
            case ast.Name(id=name, ctx=ast.Store()):
                yield from {name, prefix + name}
            case _:
                yield from _defined(node, prefix)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _blank(found: re.Match[str]) -> str:
    """As many lines, so that those behind it keep their numbers."""
    return re.sub(r"[^\n]", " ", found[0])
