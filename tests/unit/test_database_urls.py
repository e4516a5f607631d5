"""URLs of databases as providers hand them out: understood, or refused by one line that names what to change."""

import asyncpg
import pytest

from app.adapters.postgres.faults import postgres_reachable
from app.adapters.postgres.urls import parse_url
from app.domain.errors import Misconfigured

LOGIN = "postgresql://daira_app:s3cret@"


@pytest.mark.parametrize(
    ("url", "hosts", "database"),
    [
        (LOGIN + "db.rds.amazonaws.com:5432/daira?sslmode=require", [("db.rds.amazonaws.com", 5432)], "daira"),
        ("postgres://u:s3cret@ec2.compute.amazonaws.com/d1", [("ec2.compute.amazonaws.com", None)], "d1"),
        (LOGIN + "h1:5432,h2:5433/daira", [("h1", 5432), ("h2", 5433)], "daira"),
        (LOGIN + "h1,h2/daira?port=6432", [("h1", 6432), ("h2", 6432)], "daira"),
        (LOGIN + "/daira?host=h1:1&host=h2:2", [("h1", 1), ("h2", 2)], "daira"),
        (LOGIN + "[::1]:5432,[fe80::2]/daira", [("::1", 5432), ("fe80::2", None)], "daira"),
        (LOGIN + "%2Fvar%2Frun%2Fpostgresql/daira", [("/var/run/postgresql", None)], "daira"),
        (LOGIN + "localhost/daira?host=/cloudsql/p:r:i", [("/cloudsql/p:r:i", None)], "daira"),
        ("postgresql+asyncpg://daira_app@host/my%20db?ssl=require", [("host", None)], "my db"),
        (
            LOGIN + "neon.tech/db?sslmode=require&channel_binding=require",
            [("neon.tech", None)],
            "db",
        ),
        (
            LOGIN + "h/daira?connect_timeout=10&application_name=x&keepalives=1&gssencmode=disable",
            [("h", None)],
            "daira",
        ),
    ],
)
def test_providers_urls_are_understood(url: str, hosts: list[tuple[str, int | None]], database: str) -> None:
    parsed = parse_url(url)
    assert (list(parsed.hosts), parsed.database) == (hosts, database)
    assert "s3cret" not in repr(parsed)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (LOGIN + "h/d?channel_binding=require&sslmode=prefer", "channel_binding=require does not go with"),
        (LOGIN + "h/d?sslmode=require&ssl_max_protocol_version=TLSv1.1", "below ssl_min_protocol_version"),
        (LOGIN + "h/d?sslmode=require&sslrootcert=system", "needs sslmode=verify-full"),
        (LOGIN + "h/d?pgbouncer=true", "DAIRA_LISTEN_URL"),
        (LOGIN + "h/d?ssl_mode=require", "write sslmode"),
        (LOGIN + "h/d?sslmode=on", "sslmode is disable"),
        (LOGIN + "h/d?target_session_attrs=standby", "read-write"),
        (LOGIN + "h1,h2,h3/d?port=1,2", "2 numbers for 3 hosts"),
        (LOGIN + "::1/d", "in brackets"),
        (LOGIN + "h/d?service=x", "service is not supported"),
        (LOGIN + "h/d?nonsense=1", "unknown parameter nonsense"),
        ("mysql://u:s3cret@h/d", "begins with"),
        ("postgresql://u:s3%zzcret@h/d", "%25"),
        ("host=h dbname=d password=s3cret", "begins with"),
        (LOGIN + "h/my db", "blanks"),
    ],
)
def test_a_url_that_can_not_be_used_says_what_to_write(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        parse_url(url)
    assert told in str(refused.value)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize("given", ["", "sslmode=require&", "sslmode=verify-ca&", "sslmode=verify-full&"])
def test_channel_binding_asks_for_a_verified_certificate(given: str) -> None:
    """The driver has no channel binding."""
    of_system = parse_url(f"{LOGIN}neon.tech/db?{given}channel_binding=require").parameters
    of_file = parse_url(f"{LOGIN}neon.tech/db?{given}channel_binding=require&sslrootcert=/ca").parameters
    assert (of_system["sslmode"], of_system["sslrootcert"]) == ("verify-full", "system")
    assert (of_file["sslmode"], of_file["sslrootcert"]) == ("verify-full", "/ca")


def test_a_server_that_wants_tls_is_answered_by_what_to_write() -> None:
    refusal = 'no pg_hba.conf entry for host "10.0.0.1", user "daira_app", database "daira", no encryption'
    with pytest.raises(Misconfigured, match="; write sslmode=require"), postgres_reachable():
        raise asyncpg.InvalidAuthorizationSpecificationError(refusal)
