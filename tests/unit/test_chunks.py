"""Documents in parts for a model, the pages that tell most of a question, and values from parts put together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.llm.bm25 import rank
from app.domain.llm.chunks import Chunk, PagePart, chunks_of, page_ranges
from app.domain.llm.citations import Citation
from app.domain.llm.merging import LocatedValue, leaves, merge
from app.handlers.llm.schema_validation import hashable

texts = st.builds(str.__mul__, st.text(min_size=1, max_size=40), st.integers(1, 200))
pieces = st.lists(st.builds(PagePart, page=st.integers(1, 50), text=texts), max_size=8)


@given(pieces=pieces, room=st.integers(100, 5_000))
def test_nothing_is_lost_on_the_way_into_parts(pieces: list[PagePart], room: int) -> None:
    chunks = chunks_of(pieces, room=room)
    assert all(chunk.pieces for chunk in chunks)
    shown = [piece for chunk in chunks for piece in chunk.pieces]
    assert "".join(piece.text for piece in shown) == "".join(piece.text for piece in pieces)
    assert {piece.page for piece in shown} == {piece.page for piece in pieces}
    assert all(chunk.tokens <= room or len(chunk.pieces) == 1 for chunk in chunks)


def test_parts_end_between_pages_as_long_as_pages_fit() -> None:
    pages = [PagePart(page=number, text="word " * 300) for number in range(1, 8)]
    assert [chunk.pages for chunk in chunks_of(pages, room=2_000)] == [[1, 2, 3], [4, 5, 6], [7]]


def test_a_page_that_is_too_long_is_cut_between_lines() -> None:
    (*_, last) = chunks_of([PagePart(page=1, text="a line of text\n" * 500)], room=1_000)
    assert last.tokens <= 1_000
    assert last.pieces[0].text.startswith("a line")


def test_halves_are_the_whole() -> None:
    chunk = Chunk(tuple(PagePart(page=number, text=f"{number} " * 300) for number in (1, 2, 3)))
    waiting = [chunk]
    pieces: list[PagePart] = []
    while waiting:
        one = waiting.pop(0)
        halves = one.halves()
        if halves is None:
            pieces += one.pieces
        else:
            waiting = [*halves, *waiting]
    assert "".join(piece.text for piece in pieces) == "".join(piece.text for piece in chunk.pieces)
    assert len(pieces) == 6


def test_page_numbers_are_told_as_ranges() -> None:
    assert page_ranges([7, 1, 2, 3, 3, 9, 10]) == "1-3,7,9-10"
    assert page_ranges([]) == ""


PAGES = {
    1: "A preface about nothing much",
    2: "The invoice is due within thirty days",
    3: "The appendix lists invoices of thirty years, and days, and more invoices",
    4: "東京都の請求書",
    5: "The the the",
}


@pytest.mark.parametrize(
    ("question", "first"),
    [("When is the invoice due?", 2), ("appendix", 3), ("請求書はどこ", 4), ("PREFACE!", 1), ("Rechnung", 1), ("", 1)],
)
def test_the_page_that_speaks_of_it_comes_first(question: str, first: int) -> None:
    order = rank(question, PAGES)
    assert order[0] == first
    assert sorted(order) == [1, 2, 3, 4, 5]


def test_there_may_be_nothing_to_rank() -> None:
    assert rank("a", {}) == []
    assert rank("a", {1: "", 2: "a"}) == [2, 1]


YES, NO = Citation(page=1, verified=True), Citation(page=2, verified=False)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(parts=st.lists(st.lists(values, max_size=4), min_size=1, max_size=4))
def test_no_entry_of_a_list_is_lost_and_each_keeps_its_citation(parts: list[list[object]]) -> None:
    found = [
        LocatedValue({"rows": part}, {at: Citation(page=number) for at, _ in leaves({"rows": part})})
        for number, part in enumerate(parts)
    ]
    together = merge(found, same=hashable)
    assert together.data == {"rows": [entry for part in parts for entry in part]}
    assert set(together.citations) == {at for at, _ in leaves(together.data)}
    numbers = [number for number, part in enumerate(parts) for _ in part]
    for at, citation in together.citations.items():
        assert citation.page == numbers[int(at.split("/")[2])]
    assert together.alternatives == {}


def test_objects_are_put_together_name_by_name() -> None:
    found = [
        LocatedValue({"a": 1, "b": None, "c/d": {"e": 1}}, {}),
        LocatedValue({"b": 2, "c/d": {"f": [2]}}, {"/c~1d/f/0": YES}),
    ]
    together = merge(found, same=hashable)
    assert together.data == {"a": 1, "b": 2, "c/d": {"e": 1, "f": [2]}}
    assert together.citations == {"/c~1d/f/0": YES}


def test_of_values_that_differ_the_confirmed_one_is_taken_and_the_others_are_told() -> None:
    found = [
        LocatedValue({"a": 1}, {"/a": NO}),
        LocatedValue({"a": 2}, {"/a": YES}),
        LocatedValue({"a": True}, {}),
        LocatedValue({"a": 2.0}, {}),
    ]
    together = merge(found, same=hashable)
    assert (together.data, together.citations) == ({"a": 2}, {"/a": YES})
    assert [other["value"] for other in together.alternatives["/a"]] == [1, True]


def test_a_list_and_a_value_are_not_mixed() -> None:
    together = merge([LocatedValue({"a": [1, 2]}, {}), LocatedValue({"a": "x"}, {})], same=hashable)
    assert (together.data, together.alternatives["/a"][0]["value"]) == ({"a": [1, 2]}, "x")


def test_in_a_set_equal_entries_are_one() -> None:
    found = [LocatedValue([1, 2], {"/0": YES, "/1": YES}), LocatedValue([2, 3, True], {"/0": NO, "/1": NO})]
    together = merge(found, sets=[""], same=hashable)
    assert together.data == [1, 2, 3, True]
    assert together.citations == {"/0": YES, "/1": YES, "/2": NO}
