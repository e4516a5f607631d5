"""A snapshot as a position: the same again, short enough for a header, and safe to read whatever a client sends."""

from hypothesis import given
from hypothesis import strategies as st

from app.adapters.postgres.changes import MOST_RUNNING, SnapshotParts, position_of, snapshot_of
from app.domain.changes import Position

XMIN = st.integers(min_value=3, max_value=2**55)
WIDTHS = st.integers(min_value=0, max_value=2**20)


@st.composite
def snapshots(draw: st.DrawFn) -> SnapshotParts:
    xmin, width = draw(XMIN), draw(WIDTHS)
    offsets = draw(st.sets(st.integers(min_value=0, max_value=max(0, width - 1)), max_size=20)) if width else set()
    return xmin, xmin + width, tuple(sorted(xmin + offset for offset in offsets))


@given(snapshots())
def test_a_snapshot_comes_back_as_it_was(snapshot: SnapshotParts) -> None:
    assert snapshot_of(position_of(snapshot)) == snapshot


def test_it_is_as_it_is_described() -> None:
    assert position_of((47, 50, (47, 49))) == "2f.3.0-2"
    assert position_of((47, 47, ())) == "2f.0."


@given(st.text() | st.from_regex(r"[0-9a-f.-]{0,60}", fullmatch=True))
def test_whatever_a_client_sends_is_a_snapshot_or_none(text: str) -> None:
    snapshot = snapshot_of(Position(text))
    if snapshot is not None:
        xmin, xmax, running = snapshot
        assert 3 <= xmin <= xmax < 2**63
        assert list(running) == sorted(set(running))
        assert all(xmin <= number < xmax for number in running)


def test_with_very_many_writers_it_is_cut_short_and_sees_less_never_more() -> None:
    running = tuple(range(100, 100 + 3 * 2 * MOST_RUNNING, 3))
    position = position_of((100, running[-1] + 1, running))
    assert len(position) < 6_000
    assert position.isascii()
    xmin, xmax, kept = snapshot_of(position) or (0, 0, ())

    def is_seen(number: int) -> bool:
        return number < xmin or (number < xmax and number not in kept)

    assert not [number for number in running if is_seen(number)]
    assert is_seen(101)
    assert not is_seen(running[-1] + 1)
