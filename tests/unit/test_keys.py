"""API keys as text: read without ambiguity, refused without a hint."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import Unauthorized
from app.domain.ids import TENANT_PATTERN, TenantId
from app.domain.keys import ALPHABET, SECRET_LENGTH, key_text, new_secret, parse_key, secret_hash
from tests.support.rig import new_key

TENANTS = st.text("az09_-", min_size=1, max_size=63).filter(TENANT_PATTERN.fullmatch).map(TenantId)
SECRETS = st.text(ALPHABET, min_size=1, max_size=80)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(tenant=TENANTS, secret=SECRETS)
def test_a_key_is_read_as_it_was_written(tenant: TenantId, secret: str) -> None:
    credential = parse_key(key_text(tenant, secret))
    assert credential.tenant_id == tenant
    assert credential.secret_sha256 == secret_hash(secret)


@pytest.mark.parametrize("tenant", ["a_b", "a_", "a__b", "daira_daira", "0", "a-b_c-", "a" * 63])
def test_a_tenants_name_may_hold_underscores(tenant: str) -> None:
    assert parse_key(f"daira_{tenant}_s3cret").tenant_id == tenant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "daira_",
        "daira__",
        "daira__secret",
        "daira_acme",
        "daira_acme_",
        "daira_acme_secret_",
        "acme_secret",
        "DAIRA_acme_secret",
        "daira-acme-secret",
        "daira_Acme_secret",
        "daira_ac me_secret",
        "daira_../etc_secret",
        "daira__acme_secret",
        "daira_acme_sec ret",
        "daira_acme_secret\n",
        "\ndaira_acme_secret",
        "daira_acme\n_secret",
        "daira_acme\0_secret",
        "daira_acme_secret\0",
        "daira_acme_sécret",
        "daira_äcme_secret",
        "daira_acme_\ud800",
        "daira_\ud800_secret",
        "daira_acme_١٢٣",
        "daira_acme_' or true --",
        "daira_" + "a" * 64 + "_secret",
        "daira_" * 10_000,
    ],
)
def test_what_is_no_key_is_unauthorized_and_nothing_of_it_is_repeated(text: str) -> None:
    with pytest.raises(Unauthorized) as refused:
        parse_key(text)
    assert str(refused.value) == "the API key is not valid"


@pytest.mark.threat(74)
@given(text=st.text() | st.text().map("daira_acme_".__add__) | st.text().map(lambda part: f"daira_{part}_secret"))
def test_any_text_is_a_key_of_a_well_formed_tenant_or_unauthorized(text: str) -> None:
    try:
        credential = parse_key(text)
    except Unauthorized:
        return
    assert TENANT_PATTERN.fullmatch(credential.tenant_id)
    assert len(credential.secret_sha256) == 32


def test_a_secret_is_43_letters_and_digits_and_never_the_same() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert {len(secret) for secret in secrets} == {SECRET_LENGTH} == {43}
    assert set("".join(secrets)) <= set(ALPHABET)
    assert "_" not in ALPHABET


def test_a_secret_has_at_least_256_bits() -> None:
    assert len(set(ALPHABET)) ** SECRET_LENGTH > 2**256


@pytest.mark.threat(43)
def test_a_stored_key_holds_the_sha256_and_never_the_secret() -> None:
    secret = new_secret()
    key = new_key(TenantId("acme"), secret_sha256=secret_hash(secret))
    assert key.secret_sha256 == hashlib.sha256(secret.encode()).digest()
    assert secret not in repr(key)


def test_a_key_without_an_end_is_valid_until_it_is_revoked() -> None:
    assert new_key(TenantId("acme")).valid_at(NOW)
    assert not new_key(TenantId("acme"), revoked_at=NOW).valid_at(NOW)
    assert not new_key(TenantId("acme"), revoked_at=NOW + timedelta(days=1)).valid_at(NOW)


def test_a_key_is_valid_until_just_before_it_expires() -> None:
    key = new_key(TenantId("acme"), expires_at=NOW)
    assert key.valid_at(NOW - timedelta(microseconds=1))
    assert not key.valid_at(NOW)
    assert not key.valid_at(NOW + timedelta(microseconds=1))
