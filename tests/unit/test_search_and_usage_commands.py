"""What `daira search` and `daira usage` print."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from app.cli.search import marked
from app.cli.usage import BAR, _table, bar


def day(number: int, *, pages: int) -> dict[str, Any]:
    tokens = {"input": 0, "output": 0}
    return {"day": f"2026-11-{number:02}", "documents": 0, "bytes": 0, "pages": pages, "tokens": tokens}


def test_a_snippet_is_text_again_with_what_was_found_standing_out() -> None:
    text = marked("1 &lt; 2, <mark>Müller</mark> &amp; <mark>Co</mark>")
    assert text.plain == "1 < 2, Müller & Co"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["Müller", "Co"]


@pytest.mark.parametrize(
    ("number", "most", "length"), [(0, 0, 0), (0, 9, 0), (9, 9, BAR), (1, 2, BAR // 2), (1, 8 * BAR, 1)]
)
def test_a_bar_is_as_long_as_its_number_is_large(number: int, most: int, length: int) -> None:
    assert len(bar(number, most=most)) == length


def test_days_on_which_something_was_used_are_shown_and_all_together() -> None:
    total = day(1, pages=1_240)
    told = {"data": [day(1, pages=40), day(2, pages=0), day(3, pages=1_200)], "total": total}
    console = Console(file=StringIO(), width=120)
    console.print(_table(told))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "2026-11-01" in printed
    assert "2026-11-02" not in printed
    assert "1,200" in printed
    assert "1,240" in printed
    assert "█" * BAR in printed
