"""The shape of `app/`: the number and length of files, who imports them, and names of classes and docstrings."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APP = ROOT / "app"

MOST_FILES = 330
SMALL, MOST_SMALL = 40, 15
"""A file with fewer lines is a fragment; so many may be left."""
CAP = 400
"""Lines."""
MOST_WITH_ONE_IMPORTER = 132
MOST_IN_A_FOLDER = 20
"""Files; more want sub-folders."""
HEADLESS = frozenset({"What", "Of", "Whether", "Where", "How", "Who", "Those", "As"})
"""First words of a clause whose noun is left out."""

TREES = {path: ast.parse(path.read_text()) for path in sorted(APP.rglob("*.py")) if path.stat().st_size}
"""Every file but the empty ones of packages."""
LENGTHS = {path: len(path.read_text().splitlines()) for path in TREES}


def test_there_are_few_files() -> None:
    assert len(TREES) <= MOST_FILES


def test_few_files_are_fragments() -> None:
    small = [f"{shown(path)}: {length}" for path, length in LENGTHS.items() if length < SMALL]
    assert len(small) <= MOST_SMALL, listed(small)


def test_no_file_is_long() -> None:
    assert [f"{shown(path)}: {length}" for path, length in LENGTHS.items() if length > CAP] == []


def test_few_files_are_imported_by_one_other_only() -> None:
    single = [f"{shown(path)} by {shown(by.pop())}" for path, by in importers().items() if len(by) == 1]
    assert len(single) <= MOST_WITH_ONE_IMPORTER, listed(single)


def test_a_full_folder_is_divided() -> None:
    counts = Counter(path.parent for path in TREES)
    full = [f"{shown(folder)}: {count}" for folder, count in counts.items() if count > MOST_IN_A_FOLDER]
    assert [line for line in full if not has_sub_folders(APP / line.partition(":")[0])] == []


def test_a_public_class_has_its_name_alone() -> None:
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(shown(path))
    repeated = [f"{name}: {', '.join(where)}" for name, where in places.items() if len(where) > 1]
    assert repeated == [], listed(repeated)


def test_a_docstring_has_its_noun() -> None:
    headless = [
        f"{shown(path)}:{line}: {text.splitlines()[0]}"
        for path, tree in TREES.items()
        for line, text in docstrings(tree)
        if first_word(text) in HEADLESS
    ]
    assert headless == [], listed(headless)


@pytest.mark.parametrize(
    "code",
    [
        '"""What it is."""',
        'class A:\n    """Of a thing."""',
        'async def a():\n    """Whether it is."""',
        'A = 1\n"""Those that are."""',
        'class A:\n    a: int\n    """Where it is."""',
        'class A:\n    def __init__(self):\n        self.a = 1\n        """How long."""',
    ],
)
def test_each_kind_of_docstring_is_found(code: str) -> None:
    assert [first_word(text) in HEADLESS for _, text in docstrings(ast.parse(code))] == [True]


@pytest.mark.parametrize(("text", "word"), [("As a job.", "As"), ("`As` it is", ""), ("What's left", "What")])
def test_the_first_word_ends_where_letters_end(text: str, word: str) -> None:
    assert first_word(text) == word


def importers() -> dict[Path, set[Path]]:
    """By file: the other files under `app/` that import it, in whatever form and place."""
    found: dict[Path, set[Path]] = {path: set() for path in TREES}
    modules = {module_name(path): path for path in TREES}
    for path, tree in TREES.items():
        for name in imported(tree):
            if name in modules and modules[name] != path:
                found[modules[name]].add(path)
    return found


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case _:
                pass


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Of modules, classes and functions, and of what is assigned: a text right after it."""
    for node in ast.walk(tree):
        body = getattr(node, "body", [])
        if not isinstance(body, list):
            continue
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for before, each in zip([node if documented else None, *body], body, strict=False):
            follows = before is node or isinstance(before, ast.Assign | ast.AnnAssign)
            match each:
                case ast.Expr(value=ast.Constant(value=str(text)), lineno=line) if follows:
                    yield line, text.strip()
                case _:
                    pass


def first_word(text: str) -> str:
    end = next((n for n, letter in enumerate(text) if not letter.isalpha()), len(text))
    return text[:end]


def has_sub_folders(folder: Path) -> bool:
    return any(each.is_dir() and any(each.glob("*.py")) for each in folder.iterdir())


def shown(path: Path) -> str:
    return path.relative_to(APP).as_posix()


def listed(lines: list[str]) -> str:
    return "\n".join([f"{len(lines)}:", *lines])
