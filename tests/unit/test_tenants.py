"""Who a credential belongs to: known, or unknown in one and the same way."""

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.errors import Conflict, Forbidden, NotFound, Unauthorized
from app.domain.ids import KeyId, TenantId, uuid7
from app.domain.keys import EVERYDAY, Scope, key_text, new_secret, parse_key, secret_hash
from app.domain.tenants import Allowance, Caller, TenantState
from app.services.tenants import TOUCH_EVERY, TenantService
from tests.support.rig import SECOND, Rig, new_key

ACME = TenantId("acme")
ALLOWANCE = Allowance(max_running=None, max_queued=10, max_upload_bytes=1000, requests_per_minute=60)


@pytest.fixture
def tenants(rig: Rig) -> TenantService:
    return TenantService(database=rig.database, sweeps=rig.sweeps, allowance=ALLOWANCE)


async def refused(tenants: TenantService, credential: str) -> str:
    with pytest.raises(Unauthorized) as error:
        await tenants.authenticate(credential)
    return str(error.value)


async def used_at(tenants: TenantService) -> list[datetime | None]:
    return [key.last_used_at for key in await tenants.keys(ACME)]


async def test_an_issued_key_is_accepted_as_its_tenants(tenants: TenantService) -> None:
    await tenants.create(ACME)
    credential = await tenants.issue_key(ACME, name="a key")
    caller = await tenants.authenticate(credential)
    assert caller == Caller(
        tenant_id=ACME, name="a key", scopes=EVERYDAY, allowance=ALLOWANCE, admitted_at=caller.admitted_at
    )
    (key,) = await tenants.keys(ACME)
    assert (key.name, key.scopes, key.expires_at, key.revoked_at) == ("a key", EVERYDAY, None, None)
    assert key.secret_sha256 == parse_key(credential).secret_sha256


@pytest.mark.threat(44, 45)
async def test_unknown_wrong_revoked_and_expired_are_refused_in_the_same_words(tenants: TenantService) -> None:
    await tenants.create(ACME)
    revoked = await tenants.issue_key(ACME, name="revoked")
    await tenants.revoke_key(ACME, (await tenants.keys(ACME))[0].id)
    expired = await tenants.issue_key(ACME, name="expired", expires_in=-SECOND)
    texts = [
        await refused(tenants, credential)
        for credential in [
            revoked,
            expired,
            key_text(ACME, new_secret()),
            key_text(TenantId("nobody"), new_secret()),
            key_text(ACME, "x"),
            "daira_Acme_x",
            "daira_acme",
            "nonsense",
            "",
        ]
    ]
    assert set(texts) == {"the API key is not valid"}


async def test_a_secret_opens_its_own_tenant_alone(tenants: TenantService) -> None:
    other = TenantId("other")
    for tenant in (ACME, other):
        await tenants.create(tenant)
    secret = (await tenants.issue_key(ACME, name="a key")).rpartition("_")[2]
    assert (await tenants.authenticate(key_text(ACME, secret))).tenant_id == ACME
    await refused(tenants, key_text(other, secret))


async def test_a_key_is_accepted_until_it_expires(tenants: TenantService) -> None:
    await tenants.create(ACME)
    credential = await tenants.issue_key(ACME, name="a key", expires_in=timedelta(hours=1))
    await tenants.authenticate(credential)
    (key,) = await tenants.keys(ACME)
    assert key.expires_at == key.created_at + timedelta(hours=1)


@pytest.mark.threat(75)
async def test_a_suspended_tenant_is_known_and_forbidden_until_it_is_resumed(tenants: TenantService) -> None:
    await tenants.create(ACME)
    credential = await tenants.issue_key(ACME, name="a key")
    await tenants.set_state(ACME, TenantState.SUSPENDED)
    with pytest.raises(Forbidden):
        await tenants.authenticate(credential)
    # Who has no key of it does not learn that it is suspended.
    await refused(tenants, key_text(ACME, new_secret()))
    await tenants.set_state(ACME, TenantState.ACTIVE)
    assert (await tenants.authenticate(credential)).tenant_id == ACME


async def test_the_first_use_of_a_key_is_noted(tenants: TenantService) -> None:
    await tenants.create(ACME)
    credential = await tenants.issue_key(ACME, name="a key")
    assert await used_at(tenants) == [None]
    await tenants.authenticate(credential)
    assert None not in await used_at(tenants)


async def test_further_uses_within_the_minute_are_not_worth_a_write(rig: Rig, tenants: TenantService) -> None:
    await tenants.create(ACME)
    credential = await tenants.issue_key(ACME, name="a key")
    await tenants.authenticate(credential)
    first = await used_at(tenants)
    await rig.advance(SECOND)
    await tenants.authenticate(credential)
    assert await used_at(tenants) == first


async def test_a_use_after_more_than_a_minute_is_noted_again(rig: Rig, tenants: TenantService) -> None:
    await tenants.create(ACME)
    secret, long_ago = new_secret(), datetime.now(UTC) - TOUCH_EVERY - SECOND
    async with rig.database.begin(ACME) as tx:
        await tx.keys.add(new_key(ACME, secret_sha256=secret_hash(secret), last_used_at=long_ago))
    await tenants.authenticate(key_text(ACME, secret))
    (noted,) = await used_at(tenants)
    assert noted is not None
    assert noted > long_ago


async def test_a_refused_key_leaves_no_trace(tenants: TenantService) -> None:
    await tenants.create(ACME)
    credential = await tenants.issue_key(ACME, name="a key")
    await tenants.revoke_key(ACME, (await tenants.keys(ACME))[0].id)
    await refused(tenants, credential)
    assert await used_at(tenants) == [None]


async def test_a_tenant_is_created_once(tenants: TenantService) -> None:
    await tenants.create(ACME)
    with pytest.raises(Conflict, match="acme exists already"):
        await tenants.create(ACME)


async def test_what_is_asked_of_a_tenant_that_is_not_there_is_not_found(tenants: TenantService) -> None:
    with pytest.raises(NotFound, match="daira tenant create acme"):
        await tenants.issue_key(ACME, name="a key")
    with pytest.raises(NotFound):
        await tenants.set_state(ACME, TenantState.SUSPENDED)
    with pytest.raises(NotFound):
        await tenants.revoke_key(ACME, KeyId(uuid7()))
    assert await tenants.keys(ACME) == []


async def test_another_tenants_key_can_not_be_revoked(tenants: TenantService) -> None:
    other = TenantId("other")
    for tenant in (ACME, other):
        await tenants.create(tenant)
    credential = await tenants.issue_key(ACME, name="a key")
    with pytest.raises(NotFound):
        await tenants.revoke_key(other, (await tenants.keys(ACME))[0].id)
    assert (await tenants.authenticate(credential)).tenant_id == ACME


async def test_all_tenants_are_listed_by_name_page_after_page(
    tenants: TenantService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.tenants.NAMES_AT_A_TIME", 2)
    names = ["c", "a", "e", "b", "d"]
    for name in names:
        await tenants.create(TenantId(name))
    await tenants.set_state(TenantId("c"), TenantState.SUSPENDED)
    listed = await tenants.all()
    assert [tenant.id for tenant in listed] == sorted(names)
    assert [tenant.id for tenant in listed if tenant.state is TenantState.SUSPENDED] == ["c"]


async def rotated(tenants: TenantService, overlap: timedelta, **options: timedelta) -> tuple[str, str]:
    """The old key and the new one."""
    await tenants.create(ACME)
    scopes = frozenset({Scope.DOCUMENTS_READ})
    old = await tenants.issue_key(ACME, name="a key", scopes=scopes, **options)
    return old, await tenants.rotate_key(ACME, (await tenants.keys(ACME))[0].id, overlap=overlap)


async def test_a_rotated_key_has_the_name_and_scopes_of_the_old_one_and_both_are_accepted(
    tenants: TenantService,
) -> None:
    old, new = await rotated(tenants, timedelta(hours=1))
    assert old != new
    assert await tenants.authenticate(old) == await tenants.authenticate(new)
    before, after = await tenants.keys(ACME)
    assert (after.name, after.scopes, after.expires_at) == ("a key", frozenset({Scope.DOCUMENTS_READ}), None)
    assert before.expires_at is not None
    assert timedelta(minutes=59) < before.expires_at - datetime.now(UTC) <= timedelta(hours=1)


async def test_without_an_overlap_the_old_key_is_refused_at_once(tenants: TenantService) -> None:
    old, new = await rotated(tenants, timedelta())
    await refused(tenants, old)
    assert (await tenants.authenticate(new)).tenant_id == ACME


async def test_after_the_overlap_the_old_key_is_refused(tenants: TenantService, rig: Rig) -> None:
    old, _ = await rotated(tenants, SECOND)
    await rig.advance(SECOND)
    await refused(tenants, old)


async def test_a_rotated_key_lives_as_long_as_the_old_one_was_meant_to_and_prolongs_it_by_nothing(
    tenants: TenantService,
) -> None:
    await rotated(tenants, timedelta(days=30), expires_in=timedelta(days=7))
    before, after = await tenants.keys(ACME)
    assert before.expires_at == before.created_at + timedelta(days=7)
    assert after.expires_at == after.created_at + timedelta(days=7)


async def test_a_key_that_is_no_longer_valid_is_not_rotated_nor_one_that_never_was(tenants: TenantService) -> None:
    await tenants.create(ACME)
    await tenants.issue_key(ACME, name="expired", expires_in=-SECOND)
    await tenants.issue_key(ACME, name="revoked")
    expired, revoked = await tenants.keys(ACME)
    await tenants.revoke_key(ACME, revoked.id)
    for key in (expired, revoked):
        with pytest.raises(Conflict, match="make a new one"):
            await tenants.rotate_key(ACME, key.id, overlap=SECOND)
    with pytest.raises(NotFound):
        await tenants.rotate_key(ACME, KeyId(uuid7()), overlap=SECOND)
    await tenants.create(TenantId("other"))
    with pytest.raises(NotFound):
        await tenants.rotate_key(TenantId("other"), expired.id, overlap=SECOND)
    assert len(await tenants.keys(ACME)) == 2


async def test_a_caller_has_the_limits_of_the_tenant_over_those_of_the_settings(tenants: TenantService) -> None:
    await tenants.create(ACME)
    credential = await tenants.issue_key(ACME, name="a key")
    await tenants.limit(ACME, {"max_queued": 500, "max_running": 3})
    allowance = (await tenants.authenticate(credential)).allowance
    assert allowance == Allowance(max_running=3, max_queued=500, max_upload_bytes=1000, requests_per_minute=60)
