"""Documentation names no file, heading or name that is not there."""

from pathlib import Path

import pytest

from tests.support.doc_paths import anchors, dead, pages

ROOT = Path(__file__).parents[2]

DEAD = {
    "[x](gone.md)": "no file gone.md",
    "![x](pictures/gone.svg)": "no file pictures/gone.svg",
    "[x](#gone)": "no heading #gone in docs/page.md",
    "[x](other.md#gone)": "no heading #gone in other.md",
    "See `app/gone.py`.": "no file app/gone.py",
    "See `app/gone/`.": "no file app/gone/",
    "See app/gone.py.": "no file app/gone.py",
    "See `app/{web,gone}.py`.": "no file app/gone.py",
    "See `app/*_gone.py`.": "no file app/*_gone.py",
    "```sh\ncat app/gone.py\n```": "no file app/gone.py",
    "See `app/web.py` and `gone.py`.": "no file gone.py",
    "See `web.py`, of which folder?": "no file web.py",
    "See `app/web.py::gone`.": "no gone in app/web.py",
    "See `app/web.py::Table.gone`.": "no Table.gone in app/web.py",
    "See `gone` in `app/web.py`.": "no gone in app/web.py",
    "See `gone`\nin app/web.py.": "no gone in app/web.py",
    "See `gone` (`app/web.py`).": "no gone in app/web.py",
    "`test_gone`: a test.": "no test test_gone",
    "See `GONE` in `app/claim.sql`.": "no GONE in app/claim.sql",
}

ALIVE = (
    "[x](other.md) [x](other.md#two-words) [x](other.md#two-words-1) [x](#page) [x](https://example.org/gone.md)",
    "See `app/web.py`, `app/`, app/web.py, `app/*.py`, `app/{web,once}.py` and `once.py`.",
    "See `app/web.py::STATUS`, `app/web.py::Table.row`, `row` in `app/web.py`, `claim` in `app/claim.sql`.",
    "`[x](gone.md)` is code, and so is\n\n```md\n[x](gone.md)\n```",
    "`test_a_row`: a test.",
    "Not ours: https://example.org/app/gone.py, `/srv/app/gone.py`, `GET /docs/gone`, my-app/gone.py.",
    "<!-- not run: app/gone.py -->",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_web.py").write_text("async def test_a_row() -> None: ...\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n\n## Two `words`\n\n## Two words\n")
    (tmp_path / "app" / "web.py").write_text("STATUS: int = 1\n\n\nclass Table:\n    def row(self) -> None: ...\n")
    (tmp_path / "app" / "once.py").write_text("")
    (tmp_path / "app" / "claim.sql").write_text("create function claim() ...")
    return tmp_path


@pytest.mark.parametrize("page", pages(ROOT))
def test_a_page_names_only_what_is_there(page: str) -> None:
    assert dead(ROOT, page) == []


@pytest.mark.parametrize(("text", "fault"), DEAD.items(), ids=DEAD.values())
def test_what_leads_nowhere_is_reported(root: Path, text: str, fault: str) -> None:
    (root / "docs" / "page.md").write_text(f"# Page\n\n{text}\n")
    assert {line.partition(": ")[2] for line in dead(root, "docs/page.md")} == {fault}


@pytest.mark.parametrize("text", ALIVE)
def test_what_leads_somewhere_is_not_reported(root: Path, text: str) -> None:
    (root / "docs" / "page.md").write_text(f"# Page\n\n{text}\n")
    assert dead(root, "docs/page.md") == []


def test_a_report_names_the_line(root: Path) -> None:
    (root / "docs" / "page.md").write_text("# Page\n\n```sh\nls\n```\n\n`app/gone.py`\n")
    assert dead(root, "docs/page.md") == ["docs/page.md:7: no file app/gone.py"]


def test_anchors_are_those_of_the_forges() -> None:
    text = '# A `b.c()` & [d](e.md)\n\n```sh\n# no heading\n```\n\n<a id="own"></a>\n\n## Ä_z - 1\n'
    assert anchors(text) == {"a-bc--d", "ä_z---1", "own"}
