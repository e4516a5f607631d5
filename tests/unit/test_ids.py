"""Identifiers: UUIDv7 in the order of time, and tenants by a name that is never touched up."""

import time
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import Invalid
from app.domain.ids import tenant_id, uuid7


def milliseconds(identity: UUID) -> int:
    return identity.int >> 80


def test_an_id_is_a_uuid_of_version_7_and_the_rfcs_variant() -> None:
    for _ in range(200):
        identity = uuid7()
        assert (identity.version, identity.variant) == (7, RFC_4122)


def test_an_id_begins_with_the_milliseconds_of_its_making() -> None:
    before = time.time_ns() // 1_000_000
    made = milliseconds(uuid7())
    assert before <= made <= time.time_ns() // 1_000_000


def test_ids_of_different_milliseconds_are_in_the_order_of_their_making() -> None:
    made = [uuid7()]
    while len(made) < 5:
        if milliseconds(identity := uuid7()) > milliseconds(made[-1]):
            made.append(identity)
    assert sorted(made) == made
    assert sorted(map(str, made)) == list(map(str, made))


def test_ids_never_repeat() -> None:
    assert len({uuid7() for _ in range(10_000)}) == 10_000


def test_ids_of_one_process_are_in_the_order_of_their_making_within_a_millisecond_too() -> None:
    made = [uuid7() for _ in range(10_000)]
    assert sorted(made) == made


def test_the_last_62_bits_of_an_id_are_random() -> None:
    ever, always = 0, -1
    for identity in (uuid7().int for _ in range(500)):
        ever, always = ever | identity, always & identity
    assert (ever ^ always) & (2**64 - 1) == 2**62 - 1


@pytest.mark.parametrize("name", ["a", "0", "acme", "a-b", "a_b", "9_-", "a" * 63])
def test_a_tenants_name_has_lower_case_letters_digits_dashes_and_underscores(name: str) -> None:
    assert tenant_id(name) == name


@pytest.mark.threat(74)
@pytest.mark.parametrize(
    "name", ["", "A", "_a", "-a", " a", "a ", "a\n", "a.b", "a/b", "..", "a\0", "ä", "ａ", "١", "a" * 64, "\ud800"]
)
def test_any_other_name_is_refused_and_never_trimmed_or_folded(name: str) -> None:
    with pytest.raises(Invalid):
        tenant_id(name)


@given(name=st.text(max_size=70))
def test_a_name_is_accepted_unchanged_or_not_at_all(name: str) -> None:
    try:
        accepted = tenant_id(name)
    except Invalid:
        return
    assert accepted == name
    assert name.isascii()
    assert name == name.lower()
