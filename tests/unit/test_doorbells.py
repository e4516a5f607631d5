"""The message in the queue: exactly two fields when sent, anything at all when received."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.doorbells import MESSAGE_LIMIT, Ring, parse_ring, ring_message
from app.domain.errors import Invalid
from app.domain.ids import TENANT_PATTERN, JobId, TenantId

JOB = "0199c0de-0000-7000-8000-000000000001"
RING = Ring(TenantId("acme"), JobId(UUID(JOB)))

TENANTS = st.text("az09_-", min_size=1, max_size=63).filter(TENANT_PATTERN.fullmatch)
RINGS = st.builds(Ring, TENANTS.map(TenantId), st.uuids().map(JobId))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["job_id", "tenant_id", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def message(**fields: object) -> str:
    return json.dumps({"job_id": JOB, "tenant_id": "acme"} | fields)


def test_a_message_holds_job_id_and_tenant_id_and_nothing_else() -> None:
    assert json.loads(ring_message(RING)) == {"job_id": JOB, "tenant_id": "acme"}


@given(ring=RINGS)
def test_a_ring_is_read_as_it_was_sent(ring: Ring) -> None:
    sent = ring_message(ring)
    assert len(sent) <= 150
    assert parse_ring(sent) == parse_ring(sent.encode()) == ring


@pytest.mark.threat(34)
def test_fields_beyond_the_two_are_ignored() -> None:
    assert parse_ring(message(kind="ocr", payload={"tenant_id": "other"}, priority=[1], x=float("nan"))) == RING


@pytest.mark.threat(33)
def test_of_duplicate_fields_the_last_one_counts() -> None:
    assert parse_ring(f'{{"tenant_id": "other", "job_id": "{JOB}", "tenant_id": "acme"}}') == RING


@pytest.mark.threat(32, 33)
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "not JSON",
        JOB,
        f'"{JOB}"',
        "null",
        "NaN",
        "0",
        "true",
        "[]",
        '["job_id", "tenant_id"]',
        "{}",
        f'{{"job_id": "{JOB}"}}',
        '{"tenant_id": "acme"}',
        f"{{'job_id': '{JOB}', 'tenant_id': 'acme'}}",
        message() + "{}",
        message()[:-1],
    ],
)
def test_what_is_no_json_object_with_both_fields_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_ring(text)
    with pytest.raises(Invalid):
        parse_ring(text.encode("utf-8"))


@pytest.mark.threat(32)
@pytest.mark.parametrize("value", [None, True, 1, 1.5, float("nan"), float("inf"), [], [JOB], {}, {"id": JOB}])
def test_a_field_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(Invalid):
        parse_ring(message(job_id=value))
    with pytest.raises(Invalid):
        parse_ring(message(tenant_id=value))


@pytest.mark.threat(33)
@pytest.mark.parametrize(
    "job", ["", "1", JOB[:-1], JOB + "0", JOB.replace("0", "g"), "../" + JOB, JOB + "\n", "\0" * 36]
)
def test_a_bad_uuid_is_refused(job: str) -> None:
    with pytest.raises(Invalid):
        parse_ring(message(job_id=job))


@pytest.mark.threat(32)
@pytest.mark.parametrize(
    "tenant",
    ["", " ", "Acme", "acme ", "acme\n", "_acme", "-acme", "äcme", "a" * 64, "a/b", "a.b", "a\0", "\ud800", "*"],
)
def test_a_bad_tenant_is_refused(tenant: str) -> None:
    with pytest.raises(Invalid):
        parse_ring(message(tenant_id=tenant))


@pytest.mark.threat(33)
def test_a_message_of_2_kb_is_refused_unread() -> None:
    with pytest.raises(Invalid, match="at most 1 KiB"):
        parse_ring(message(padding="x" * 2048))


def test_the_limit_is_a_kilobyte() -> None:
    longest = message(padding="x" * (MESSAGE_LIMIT - len(message(padding=""))))
    assert len(longest) == MESSAGE_LIMIT == 1024
    assert parse_ring(longest) == RING
    with pytest.raises(Invalid):
        parse_ring(longest + " ")


@pytest.mark.threat(33)
@pytest.mark.parametrize("opening", ["[", '{"job_id":', '{"tenant_id":['])
def test_deep_nesting_is_refused(opening: str) -> None:
    nested = (opening * MESSAGE_LIMIT)[:MESSAGE_LIMIT]
    with pytest.raises(Invalid):
        parse_ring(nested)


@pytest.mark.threat(33)
@pytest.mark.parametrize("content", [b"\xff\xfe\xfd", b"\x00", b"\x80abc", message().encode("utf-32")[:-3]])
def test_bytes_that_are_no_text_are_refused(content: bytes) -> None:
    with pytest.raises(Invalid):
        parse_ring(content)


@pytest.mark.threat(33)
@given(content=st.binary(max_size=2000))
def test_any_bytes_are_a_ring_or_refused(content: bytes) -> None:
    with pytest.raises(Invalid):
        parse_ring(content)


@given(value=JSON)
def test_any_json_is_a_ring_or_refused(value: object) -> None:
    try:
        ring = parse_ring(json.dumps(value))
    except Invalid:
        return
    assert TENANT_PATTERN.fullmatch(ring.tenant_id)
