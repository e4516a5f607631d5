"""Tokens of an issuer, as an attacker would try them: refused like a bad key, and never at the issuer's expense."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from pydantic import ValidationError

from app.adapters.oidc import issuer as keys
from app.adapters.oidc.issuer import IssuerKeys
from app.adapters.oidc.tokens import OidcTokenVerifier
from app.domain.errors import Unauthorized, Unavailable
from app.domain.keys import Scope
from app.domain.tenants import TenantState
from app.guard import settings_faults
from app.settings import Settings
from tests.support.issuer import AUDIENCE, TestIssuer, issuing, public, rsa_key
from tests.unit.served import ACME, Served, served
from tests.unit.test_rates import Clock

NOW = int(time.time())
"""When the tests were collected, which may be long before this one's turn."""

DAY = 86_400


@pytest.fixture
async def issuer() -> AsyncIterator[TestIssuer]:
    async with issuing() as issuer:
        yield issuer


@pytest.fixture
async def web(issuer: TestIssuer) -> AsyncIterator[Served]:
    async with served(oidc_issuer=issuer.url, oidc_audience=AUDIENCE) as web:
        yield web


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def tokens(issuer: TestIssuer, clock: Clock) -> AsyncIterator[OidcTokenVerifier]:
    async with httpx.AsyncClient() as client:
        yield OidcTokenVerifier(
            IssuerKeys(issuer.url, client, clock=clock),
            url=issuer.url,
            audience=AUDIENCE,
            tenant_claim="tenant",
            scope_claim="scope",
        )


async def me(web: Served, token: str) -> httpx.Response:
    return await web.client.get("/v1/me", headers={"Authorization": f"Bearer {token}"})


def unsigned(issuer: TestIssuer, algorithm: str) -> str:
    parts = ({"alg": algorithm, "kid": "one", "typ": "JWT"}, issuer.claims())
    return ".".join(_part(json.dumps(part).encode()) for part in parts) + "."


def with_the_public_key_as_a_secret(issuer: TestIssuer) -> str:
    """The classic confusion; by hand, as the library refuses to make one."""
    pem = issuer.key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signed = unsigned(issuer, "HS256").rstrip(".")
    return f"{signed}.{_part(hmac.digest(pem, signed.encode(), hashlib.sha256))}"


def tampered(issuer: TestIssuer) -> str:
    header, _, signature = issuer.token().split(".")
    return f"{header}.{_part(json.dumps(issuer.claims(scope='admin')).encode())}.{signature}"


def _part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


BAD: dict[str, Callable[[TestIssuer], str]] = {
    "no algorithm": lambda issuer: unsigned(issuer, "none"),
    "no Algorithm": lambda issuer: unsigned(issuer, "nOnE"),
    "HS256 with the public key": with_the_public_key_as_a_secret,
    "another's signature": lambda issuer: issuer.token(key=rsa_key()),
    "changed after it was signed": tampered,
    "another algorithm of the same key": lambda issuer: issuer.token(algorithm="RS512"),
    "another audience": lambda issuer: issuer.token(aud="others"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "another issuer": lambda issuer: issuer.token(iss="https://elsewhere.test"),
    "an issuer with a slash": lambda issuer: issuer.token(iss=f"{issuer.url}/"),
    "no issuer": lambda issuer: issuer.token(iss=None),
    "expired": lambda issuer: issuer.token(exp=NOW - 120),
    "no end": lambda issuer: issuer.token(exp=None),
    "not yet": lambda issuer: issuer.token(nbf=NOW + DAY),
    "issued in the future": lambda issuer: issuer.token(iat=NOW + DAY),
    "an unknown key": lambda issuer: issuer.token(headers={"kid": "two"}),
    "a kid that is no text": lambda issuer: issuer.token(headers={"kid": "../../one"}),
    "a critical header": lambda issuer: issuer.token(headers={"crit": ["mine"], "mine": True}),
    "a payload apart": lambda issuer: issuer.token(headers={"crit": ["b64"], "b64": False}),
    "no tenant": lambda issuer: issuer.token(tenant=None),
    "two tenants": lambda issuer: issuer.token(tenant=["acme", "bolt"]),
    "a tenant that is none": lambda issuer: issuer.token(tenant="../acme"),
    "a tenant that is not there": lambda issuer: issuer.token(tenant="nobody"),
    "a tenant in capitals": lambda issuer: issuer.token(tenant="ACME"),
    "very long": lambda issuer: issuer.token(more="x" * 100_000),
    "no token": lambda _: "nonsense",
    "two parts": lambda _: "a.b",
    "no base64": lambda _: "!.!.!",
    "nested JSON": lambda _: _part(b"[" * 5000) + ".e30.e30",
    "encrypted": lambda _: "a.b.c.d.e",
}


@pytest.mark.threat(47)
@pytest.mark.parametrize("name", BAD)
async def test_a_bad_token_is_answered_like_a_bad_key(web: Served, issuer: TestIssuer, name: str) -> None:
    answer = await me(web, BAD[name](issuer))
    bad_key = await me(web, "daira_acme_wrong")
    assert answer.status_code == bad_key.status_code == 401
    assert answer.json() | {"request_id": ""} == bad_key.json() | {"request_id": ""}
    assert answer.headers["WWW-Authenticate"] == bad_key.headers["WWW-Authenticate"]
    assert set(issuer.asked) <= {"/.well-known/openid-configuration", "/keys"}


async def test_a_good_token_is_let_in_as_its_tenant_with_the_scopes_that_are_known(
    web: Served, issuer: TestIssuer
) -> None:
    answer = await me(web, issuer.token())
    assert answer.status_code == 200
    body = answer.json()
    assert (body["tenant"], body["key"], body["scopes"]) == ("acme", "robot", ["documents:read"])
    header = {"Authorization": f"Bearer {issuer.token()}"}
    assert (await web.client.get("/v1/jobs", headers=header)).status_code == 200
    refused = await web.client.post("/v1/documents", headers=header)
    assert refused.status_code == 403
    assert "documents:write" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("claim", "scopes"),
    [
        ("admin", {Scope.ADMIN}),
        (["documents:write", "jobs:write", "x", 7, None], {Scope.DOCUMENTS_WRITE, Scope.JOBS_WRITE}),
        ("", set()),
        ("Admin documents:*", set()),
        (None, set()),
        ({"admin": True}, set()),
        (["documents:write admin"], set()),
    ],
)
async def test_scopes_are_a_text_or_a_list_and_nothing_else(
    tokens: OidcTokenVerifier, issuer: TestIssuer, claim: object, scopes: set[Scope]
) -> None:
    assert (await tokens.read(issuer.token(scope=claim))).scopes == scopes


async def test_without_a_scope_there_is_no_access(web: Served, issuer: TestIssuer) -> None:
    for scope in (None, "openid profile"):
        answer = await me(web, issuer.token(scope=scope))
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_suspended_tenants_token_is_forbidden(web: Served, issuer: TestIssuer) -> None:
    await web.runtime.tenants.set_state(ACME, TenantState.SUSPENDED)
    assert (await me(web, issuer.token())).status_code == 403


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("ES256", ec.generate_private_key(ec.SECP256R1())),
        ("ES384", ec.generate_private_key(ec.SECP384R1())),
        ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
        ("PS256", rsa_key()),
    ],
    ids=["ES256", "ES384", "EdDSA", "PS256"],
)
async def test_other_asymmetric_algorithms_are_known(
    tokens: OidcTokenVerifier, issuer: TestIssuer, algorithm: str, key: Any
) -> None:
    issuer.published = [public(key, "one", alg=algorithm)]
    assert (await tokens.read(issuer.token(key=key, algorithm=algorithm))).tenant_id == ACME


async def test_keys_that_are_symmetric_or_for_encryption_are_as_if_not_there(
    tokens: OidcTokenVerifier, issuer: TestIssuer
) -> None:
    secret = b"s" * 64
    symmetric = {"kty": "oct", "kid": "one", "k": _part(secret), "alg": "HS256"}
    issuer.published = [symmetric, public(issuer.key, "two", use="enc"), {"kty": "what"}, {}]
    for token in (
        jwt.encode(issuer.claims(), secret, algorithm="HS256", headers={"kid": "one"}),
        issuer.token(headers={"kid": "two"}),
    ):
        with pytest.raises(Unauthorized):
            await tokens.read(token)


@pytest.mark.filterwarnings("ignore::jwt.InsecureKeyLengthWarning")
async def test_a_key_that_is_too_short_opens_nothing(tokens: OidcTokenVerifier, issuer: TestIssuer) -> None:
    short = rsa_key(1024)
    issuer.published = [public(short, "one")]
    with pytest.raises(Unauthorized):
        await tokens.read(issuer.token(key=short))


async def test_a_token_without_kid_is_checked_with_the_only_key(tokens: OidcTokenVerifier, issuer: TestIssuer) -> None:
    bare = jwt.encode(issuer.claims(), issuer.key, algorithm="RS256")
    assert (await tokens.read(bare)).tenant_id == ACME


async def test_a_token_without_kid_is_refused_where_there_are_several_keys(
    tokens: OidcTokenVerifier, issuer: TestIssuer
) -> None:
    issuer.published.append(public(rsa_key(), "two"))
    with pytest.raises(Unauthorized):
        await tokens.read(jwt.encode(issuer.claims(), issuer.key, algorithm="RS256"))


@pytest.mark.threat(47)
async def test_places_that_a_token_names_are_never_asked(tokens: OidcTokenVerifier, issuer: TestIssuer) -> None:
    mine = rsa_key()
    named = {"jku": f"{issuer.url}/mine", "x5u": f"{issuer.url}/mine", "jwk": public(mine, "one")}
    with pytest.raises(Unauthorized):
        await tokens.read(issuer.token(key=mine, headers=named))
    assert "/mine" not in issuer.asked


async def test_clocks_may_differ_by_less_than_a_minute(tokens: OidcTokenVerifier, issuer: TestIssuer) -> None:
    now = int(time.time())
    moment = datetime.fromtimestamp(now, UTC)
    assert (await tokens.read(issuer.token(exp=now - 10, nbf=now + 10))).valid_at(moment)
    for off in (issuer.token(exp=now - 61), issuer.token(nbf=now + 61), issuer.token(iat=now + 61)):
        assert not (await tokens.read(off)).valid_at(moment)


@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", ["soon", [], {}, float("inf"), float("nan")])
async def test_a_time_that_is_none_is_refused(
    tokens: OidcTokenVerifier, issuer: TestIssuer, claim: str, value: Any
) -> None:
    with pytest.raises(Unauthorized):
        await tokens.read(issuer.token(**{claim: value}))


async def test_keys_are_fetched_once_and_again_after_ten_minutes(
    tokens: OidcTokenVerifier, issuer: TestIssuer, clock: Clock
) -> None:
    await asyncio.gather(*(tokens.read(issuer.token()) for _ in range(20)))
    assert issuer.looks == 1
    clock.now += keys.FRESH - 1
    await tokens.read(issuer.token())
    assert issuer.looks == 1
    clock.now += 1
    await tokens.read(issuer.token())
    assert issuer.looks == 2


@pytest.mark.threat(47)
async def test_a_flood_of_unknown_keys_asks_the_issuer_once_a_minute(
    tokens: OidcTokenVerifier, issuer: TestIssuer, clock: Clock
) -> None:
    for minute in range(3):
        answers = await asyncio.gather(
            *(tokens.read(issuer.token(headers={"kid": f"k{n}"})) for n in range(50)), return_exceptions=True
        )
        assert {type(answer) for answer in answers} == {Unauthorized}
        assert issuer.looks == minute + 1
        clock.now += keys.AGAIN


async def test_a_new_key_of_the_issuer_is_found_and_an_old_one_forgotten(
    tokens: OidcTokenVerifier, issuer: TestIssuer, clock: Clock
) -> None:
    old = issuer.token()
    await tokens.read(old)
    issuer.key = rsa_key()
    issuer.published = [public(issuer.key, "two")]
    clock.now += keys.AGAIN
    assert (await tokens.read(issuer.token(headers={"kid": "two"}))).tenant_id == ACME
    with pytest.raises(Unauthorized):
        await tokens.read(old)


@pytest.mark.parametrize(
    "trouble",
    [
        {"answer": b"not JSON"},
        {"answer": b"[]"},
        {"configuration": {"padding": "x" * keys.LARGEST}},
        {"configuration": {"issuer": "https://elsewhere.test"}},
        {"configuration": {"jwks_uri": "http://127.0.0.1:9/keys"}},
        {"configuration": {"jwks_uri": "file:///etc/passwd"}},
        {"configuration": {"jwks_uri": None}},
    ],
    ids=lambda trouble: str(trouble)[:60],
)
async def test_an_issuer_in_trouble_is_a_503_and_never_a_401(
    web: Served, issuer: TestIssuer, trouble: dict[str, Any]
) -> None:
    for name, value in trouble.items():
        setattr(issuer, name, value)
    answer = await me(web, issuer.token())
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "Retry-After" in answer.headers
    assert (await web.client.get("/v1/me")).status_code == 200, "an API key needs no issuer"


async def test_while_the_issuer_is_away_known_keys_are_used_for_an_hour(
    tokens: OidcTokenVerifier, issuer: TestIssuer, clock: Clock
) -> None:
    await tokens.read(issuer.token())
    issuer.answer = b"away"
    clock.now += keys.KEPT - 1
    assert (await tokens.read(issuer.token())).tenant_id == ACME
    with pytest.raises(Unavailable):
        await tokens.read(issuer.token(headers={"kid": "two"}))
    clock.now += keys.PAUSE
    with pytest.raises(Unavailable):
        await tokens.read(issuer.token())
    issuer.answer = None
    clock.now += keys.PAUSE
    assert (await tokens.read(issuer.token())).tenant_id == ACME


async def test_an_issuer_that_is_away_is_not_asked_by_every_request(
    tokens: OidcTokenVerifier, issuer: TestIssuer, clock: Clock
) -> None:
    issuer.answer = b"away"
    for attempt in range(3):
        answers = await asyncio.gather(*(tokens.read(issuer.token()) for _ in range(20)), return_exceptions=True)
        assert {type(answer) for answer in answers} == {Unavailable}
        assert len(issuer.asked) == attempt + 1
        clock.now += keys.PAUSE


async def test_without_an_issuer_a_token_is_a_bad_key(issuer: TestIssuer) -> None:
    async with served() as web:
        assert (await me(web, issuer.token())).status_code == 401
    assert issuer.asked == []


def test_an_issuer_needs_an_audience_and_in_production_https() -> None:
    with pytest.raises(ValidationError, match="set together"):
        Settings(_env_file=None, oidc_issuer="https://id.test")
    with pytest.raises(ValidationError, match="set together"):
        Settings(_env_file=None, oidc_audience="daira")
    for odd in ("id.test", "ftp://id.test", "https://id.test?x=1"):
        with pytest.raises(ValidationError):
            Settings(_env_file=None, oidc_issuer=odd, oidc_audience="daira")
    open_to_all = Settings(_env_file=None, oidc_issuer="http://id.test", oidc_audience="daira")
    assert any("OIDC_ISSUER is not https" in fault for fault in settings_faults(open_to_all))
    good = Settings(_env_file=None, oidc_issuer="https://id.test", oidc_audience="daira")
    assert not any("OIDC" in fault for fault in settings_faults(good))


async def test_an_issuer_over_https_publishes_its_keys_over_https(clock: Clock) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.scheme == "https"
        return httpx.Response(200, json={"issuer": "https://id.test", "jwks_uri": "http://id.test/keys"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        with pytest.raises(Unavailable):
            await IssuerKeys("https://id.test", client, clock=clock).key("one")
