"""Whatever the documentation shows to be typed is run by the tests, or there is a reason beside it."""

import os
from pathlib import Path

import pytest

from tests.support.snippets import PAGES, fits, open_desk, parse, snippets

PAGE = """
<!-- run -->
```sh
name=fox
echo "$name" > told
```

<!-- run 2>&1 -->
```sh
echo "the $name" >&2
```

```text
the fox
```

<!-- run -->
```python
animal = open("told").read()
print(animal, "1", "2", sep="")
```

<!-- not run: it would end it all -->
```sh
exit 1
```

```sh
nobody knows
```
"""

WRONG = {
    "sh fails": "<!-- run -->\n```sh\nfalse\necho on\n```",
    "sh speaks": "<!-- run -->\n```sh\necho oh >&2\n```",
    "python fails": "<!-- run -->\n```python\nprint(1 / 0)\n```",
}


@pytest.mark.parametrize("page", PAGES)
def test_what_is_shown_to_be_typed_is_run_or_says_why_not(page: str) -> None:
    assert [f"{page}:{snippet.line}" for snippet in snippets(page) if not snippet.is_settled] == []


def test_blocks_are_told_apart_by_the_line_before_them() -> None:
    found = parse(PAGE, page="x.md")
    assert [(snippet.runs, snippet.is_settled) for snippet in found] == [(True, True)] * 3 + [
        (False, True),
        (False, False),
    ]
    assert [snippet.line for snippet in found] == [3, 9, 18, 24, 28]
    assert found[1].printed == "the fox\n"


def test_blocks_of_a_page_go_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    found = [snippet for snippet in parse(PAGE, page="x.md") if snippet.runs]
    (tmp_path / "desk").mkdir()
    with open_desk(tmp_path / "desk", os.environ) as desk:
        assert [desk.run(snippet, code=snippet.code) for snippet in found] == ["", "the fox\n", "fox\n12\n"]


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_fails_or_prints_an_error_is_told(tmp_path: Path, text: str) -> None:
    [snippet] = parse(text, page="x.md")
    (tmp_path / "desk").mkdir()
    with open_desk(tmp_path / "desk", os.environ) as desk, pytest.raises(AssertionError, match=r"x\.md:2"):
        desk.run(snippet, code=snippet.code)


def test_dots_stand_for_anything_within_a_line() -> None:
    assert fits("id 019a done\n", "id … done\n")
    assert not fits("id 019a\ndone\n", "id … done\n")
    assert not fits("id (x)\n", "id .x.\n")
