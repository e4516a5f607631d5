"""URLs as providers hand them out, at a real server: all of the program connects, or one line says what to change.

The names of providers' hosts lead to loopback here. TLS is spoken by a proxy, as it is at many of them.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import ValidationError

from app import guard
from app.adapters.postgres.engine import PostgresEngine, administer, listen
from app.adapters.postgres.isolation.roles import make_roles
from app.adapters.postgres.migrations import head, migrate
from app.cli.operate import reach
from app.domain.errors import DairaError
from app.settings import Settings
from tests.support.certificates import Authority
from tests.support.folders import open_folder
from tests.support.ports import free_port
from tests.support.tcp_postgres import running_postgres
from tests.support.tls_front import tls_in_front_of

ADMIN = "ADMIN_SECRET"
SECRET = "s3cr@t/#1?&%:é"
ENCODED = quote(SECRET, safe="")
OF_A_POOLER = "abcdefghijklmnopqrst"
"""What a pooler of many databases wants behind the login's name."""

PROVIDERS = [
    "*.c9akciq32.eu-central-1.rds.amazonaws.com",
    "*.eu-central-1.aws.neon.tech",
    "*.supabase.co",
    "*.pooler.supabase.com",
    "*.compute-1.amazonaws.com",
    "*.postgres.database.azure.com",
    "*.flycast",
    "*.frankfurt-postgres.render.com",
    "*.b.db.ondigitalocean.com",
    "*.h.aivencloud.com",
    "*.tsdb.cloud.timescale.com",
    "*.db.postgresbridge.com",
    "*.example.com",
    "localhost",
    "127.0.0.1",
    "::1",
]
"""The names that the server's certificate is good for."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The server, and the words that stand in the table's URLs in braces."""

    ports: Mapping[str, int]
    words: Mapping[str, Any]

    def url(self, template: str, *, role: str) -> str:
        return template.format(role=role, secret=ENCODED, **self.words)

    def port(self, host: str) -> int:
        """The port that a host's name leads to."""
        return self.ports.get(host.partition(".")[0], self.ports["tls"])


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with open_folder() as folder:
        certificates = _certificates(folder)
        sockets = [folder / "run", folder / "cloudsql" / "a-project:europe-west1:daira"]
        for each in sockets:
            each.mkdir(parents=True)
            # The server's account is another one.
            each.chmod(0o777)
        with running_postgres(password=ADMIN, sockets=sockets) as port:
            for each in sockets:
                # Named for the port that is left out in such URLs.
                (each / ".s.PGSQL.5432").symlink_to(each / f".s.PGSQL.{port}")
            asyncio.run(_prepare(port))
            yield from _fronted(folder, port, sockets=sockets[0], words=certificates)


def _fronted(folder: Path, port: int, *, sockets: Path, words: Mapping[str, Path]) -> Iterator[Place]:
    context, strict = (_context(words, client=client) for client in (ssl.CERT_NONE, ssl.CERT_REQUIRED))
    with (
        tls_in_front_of(port, context) as tls,
        tls_in_front_of(port, strict) as certified,
        tls_in_front_of(port, context, host="::1" if HAS_IPV6 else "127.0.0.1") as six,
    ):
        ports = {"tls": tls, "plain": port, "certified": certified, "down": free_port()}
        yield Place(
            ports=ports,
            words={
                **words,
                "socket": sockets,
                "escaped_socket": quote(str(sockets), safe=""),
                "folder": folder,
                "port": tls,
                "six": six,
            },
        )


def _certificates(folder: Path) -> dict[str, Path]:
    authority, other = Authority("the test's authority"), Authority("another one")
    server, server_key = authority.issue("a server", hosts=PROVIDERS)
    client, client_key = authority.issue("daira", password="of-the-key")
    files = {
        "ca": authority.pem,
        "other_ca": other.pem,
        "server": server + server_key,
        "client": client,
        "client_key": client_key,
        "revoked": authority.revoke(server),
        "none_revoked": authority.revoke(),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in files}


def _context(words: Mapping[str, Path], *, client: ssl.VerifyMode) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(words["server"])
    context.load_verify_locations(words["ca"])
    context.verify_mode = client
    context.set_alpn_protocols(["postgresql"])
    return context


async def _prepare(port: int) -> None:
    owner, app = (f"postgresql://daira_{role}:{ENCODED}@127.0.0.1:{port}/daira" for role in ("owner", "app"))
    admin = f"postgresql://postgres:{ADMIN}@127.0.0.1:{port}/postgres"
    await make_roles(admin, owner_url=owner, app_url=app)
    await migrate(owner)
    async with administer(admin) as connection:
        await connection.execute("revoke connect on database postgres from public")
        literal = await connection.fetchval("select quote_literal($1::text)", SECRET)
        for role in ("daira_owner", "daira_app"):
            await connection.execute(f'create role "{role}.{OF_A_POOLER}" login password {literal} in role {role}')


@pytest.fixture(autouse=True)
def resolved(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Providers' names lead to this machine, and what the system trusts is the test's authority."""
    genuine = socket.getaddrinfo

    def look_up(host: str, port: int, *arguments: Any, **options: Any) -> Any:
        if host.endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if host not in {"localhost", "127.0.0.1", "::1"}:
            host, port = "127.0.0.1", place.port(host)
        return genuine(host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setenv("SSL_CERT_FILE", str(place.words["ca"]))
    for variable in ("PGSSLMODE", "PGSSLROOTCERT", "PGHOST", "PGPORT", "PGPASSWORD"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(place.words["folder"]))


HAS_IPV6 = Path("/proc/net/if_inet6").exists() and "0000000000000001 " in Path("/proc/net/if_inet6").read_text()

LOGIN = "postgresql://{role}:{secret}@"
NEON = LOGIN + "ep-cool-darkness-123456-pooler.eu-central-1.aws.neon.tech/daira"
EXAMPLE = LOGIN + "db.example.com/daira"

CONNECTED = {
    "RDS": LOGIN + "daira.c9akciq32.eu-central-1.rds.amazonaws.com:5432/daira?sslmode=require",
    "RDS, its authorities": LOGIN
    + "daira.c9akciq32.eu-central-1.rds.amazonaws.com:5432/daira?sslmode=verify-full&sslrootcert={ca}",
    "Aurora, the cluster's name": LOGIN
    + "daira.c9akciq32.eu-central-1.rds.amazonaws.com/daira?ssl=true&target_session_attrs=primary",
    "Neon": NEON + "?sslmode=require&channel_binding=require",
    "Neon, before": NEON + "?sslmode=require",
    "Supabase, direct": LOGIN + f"db.{OF_A_POOLER}.supabase.co:5432/daira",
    "Supabase, its pooler": "postgres://{role}."
    + OF_A_POOLER
    + ":{secret}@aws-0-eu-central-1.pooler.supabase.com:5432/daira?sslmode=require",
    "Heroku": "postgres://{role}:{secret}@ec2-1-2-3-4.compute-1.amazonaws.com:5432/daira",
    "Heroku, sslmode": "postgres://{role}:{secret}@ec2-1-2-3-4.compute-1.amazonaws.com:5432/daira?sslmode=require",
    "Azure": LOGIN + "daira.postgres.database.azure.com:5432/daira?sslmode=verify-full&sslrootcert=system",
    "Cloud SQL, a socket": LOGIN + "/daira?host={folder}/cloudsql/a-project:europe-west1:daira",
    "Cloud SQL, as SQLAlchemy writes it": "postgresql+asyncpg://{role}:{secret}@/daira"
    "?host={folder}/cloudsql/a-project:europe-west1:daira",
    "Fly": "postgres://{role}:{secret}@daira-db.flycast:5432/daira?sslmode=disable",
    "Render": LOGIN + "dpg-abc123-a.frankfurt-postgres.render.com/daira",
    "DigitalOcean": LOGIN + "db-fra1-1-do-user-1-0.b.db.ondigitalocean.com:25060/daira?sslmode=require",
    "Aiven": "postgres://{role}:{secret}@pg-1-daira.h.aivencloud.com:12345/daira?sslmode=verify-ca&sslrootcert={ca}",
    "Timescale": "postgres://{role}:{secret}@a1.tsdb.cloud.timescale.com:33333/daira?sslmode=require",
    "Crunchy Bridge": "postgres://{role}:{secret}@p-abcd.db.postgresbridge.com:5432/daira",
    "parameters of the connection": EXAMPLE
    + "?application_name=billing&connect_timeout=5&keepalives=1&keepalives_idle=30&keepalives_interval=10"
    "&keepalives_count=3&tcp_user_timeout=20000",
    "settings of the session": EXAMPLE + "?options=-c%20statement_timeout%3D20s%20-c%20geqo%3Doff",
    "several hosts, one of them down": LOGIN + "down.example.com:5432,db.example.com:5432/daira?connect_timeout=2",
    "several hosts, as a parameter": LOGIN
    + "/daira?host=down.example.com,db.example.com&target_session_attrs=read-write",
    "a socket": LOGIN + "/daira?host={socket}",
    "a socket as a host": LOGIN + "{escaped_socket}/daira",
    "IPv6": LOGIN + "[::1]:{six}/daira?sslmode=verify-full&sslrootcert={ca}",
    "IPv4": LOGIN + "127.0.0.1:{port}/daira?sslmode=verify-full&sslrootcert={ca}",
    "a line break of a file": EXAMPLE + "?sslmode=require\n",
    "no TLS at the server": LOGIN + "plain.example.com/daira",
    "verify-ca, another name": LOGIN + "db.elsewhere.org/daira?sslmode=verify-ca&sslrootcert={ca}",
    "channel binding, a file": EXAMPLE + "?sslmode=require&channel_binding=require&sslrootcert={ca}",
    "a client's certificate": LOGIN
    + "certified.example.com/daira?sslmode=verify-full&sslrootcert={ca}&sslcert={client}&sslkey={client_key}"
    "&sslpassword=of-the-key",
    "a client's certificate, the system's authorities": LOGIN
    + "certified.example.com/daira?sslmode=verify-full&sslrootcert=system&sslcert={client}&sslkey={client_key}"
    "&sslpassword=of-the-key",
    "nothing revoked": EXAMPLE + "?sslmode=verify-full&sslrootcert=system&sslcrl={none_revoked}",
    "TLS 1.2 at most": EXAMPLE + "?sslmode=verify-full&sslrootcert=system&ssl_max_protocol_version=TLSv1.2",
    "TLS at once": EXAMPLE + "?sslmode=verify-full&sslrootcert=system&sslnegotiation=direct",
    "TLS at once, by the driver": EXAMPLE + "?sslmode=require&sslnegotiation=direct",
    "libpq's defaults": EXAMPLE + "?gssencmode=prefer&client_encoding=UTF8&load_balance_hosts=disable&sslsni=1",
    "GSSAPI's refusal": EXAMPLE + "?gssencmode=disable&sslcompression=0",
}
"""By the provider, or by the kind."""

REFUSED = {
    "another name": (LOGIN + "db.elsewhere.org/daira?sslmode=verify-full&sslrootcert={ca}", "Hostname mismatch"),
    "another name, Neon's form": (LOGIN + "db.elsewhere.org/daira?sslmode=require&channel_binding=require", "Hostname"),
    "another authority": (EXAMPLE + "?sslmode=verify-full&sslrootcert={other_ca}", "see sslrootcert and sslmode"),
    "another authority, verify-ca": (EXAMPLE + "?sslmode=verify-ca&sslrootcert={other_ca}", "see sslrootcert"),
    "revoked": (EXAMPLE + "?sslmode=verify-full&sslrootcert=system&sslcrl={revoked}", "revoked"),
    "revoked, by the driver": (EXAMPLE + "?sslmode=verify-full&sslrootcert={ca}&sslcrl={revoked}", "revoked"),
    "no client's certificate": (
        LOGIN + "certified.example.com/daira?sslmode=require",
        "a client's certificate (sslcert)",
    ),
    "the certificate without its key": (
        LOGIN + "certified.example.com/daira?sslmode=require&sslcert={client}",
        "sslkey",
    ),
    "the key's password": (
        LOGIN + "certified.example.com/daira?sslmode=require&sslcert={client}&sslkey={client_key}&sslpassword=wrong",
        "sslpassword",
    ),
    "no TLS at the server": (LOGIN + "plain.example.com/daira?sslmode=require", "sslmode"),
    "no TLS, Neon's form": (LOGIN + "plain.example.com/daira?channel_binding=require", "sslmode"),
    "TLS at once, no TLS there": (
        LOGIN + "plain.example.com/daira?sslmode=require&sslnegotiation=direct",
        "sslnegotiation",
    ),
    "a missing file": (EXAMPLE + "?sslmode=verify-full&sslrootcert=/nowhere/ca.pem", "sslrootcert: /nowhere/ca.pem"),
    "a file that is no certificate": (
        EXAMPLE + "?sslmode=verify-full&sslrootcert={socket}/../client_key",
        "sslrootcert",
    ),
    "no authority": (EXAMPLE + "?sslmode=verify-full", "needs sslrootcert"),
    "nothing listens": (LOGIN + "down.example.com/daira", "nothing listens there"),
    "none of several listens": (LOGIN + "down.example.com,down.example.org/daira", "nothing listens there"),
    "an unknown name": (LOGIN + "db.nowhere.invalid/daira", "the name of its host is not known"),
    "a missing socket": (LOGIN + "/daira?host=/nowhere/at/all", "nothing listens there"),
    "another password": ("postgresql://{role}:wr0ng-s3cr@db.example.com/daira", "password authentication failed"),
    "no password": ("postgresql://{role}@db.example.com/daira", "password"),
    "another login": ("postgresql://nobody:{secret}@db.example.com/daira", "password authentication failed"),
    "another database": (LOGIN + "db.example.com/nothing", 'database "nothing"'),
    "a password with @": ("postgresql://{role}:s3cr@t/#1@db.example.com/daira", "percent-encoded"),
    "a password with #": ("postgresql://{role}:s3cr#t@db.example.com/daira", "%23"),
    "a password with %": ("postgresql://{role}:s3cr%@db.example.com/daira", "%25"),
    "CockroachDB": (LOGIN + "db.example.com:26257/daira?sslmode=require&options=--cluster%3Dx-1", "options"),
    "Neon, an endpoint": (NEON + "?sslmode=require&options=endpoint%3Dep-cool-darkness-123456", "options"),
    "a setting that is unknown": (EXAMPLE + "?options=-c%20statement_timout%3D20s", "options"),
    "Prisma": (EXAMPLE + "?schema=public&pgbouncer=true&connection_limit=1", "schema is not supported: leave it out"),
    "Prisma, its pool": (EXAMPLE + "?connection_limit=1", "DAIRA_POOL_SIZE"),
    "Prisma, a pooler": (EXAMPLE + "?pgbouncer=true", "DAIRA_LISTEN_URL"),
    "a setting of another kind": (EXAMPLE + "?options=-c%20statement_timeout%3Dsoon", "options"),
    "a setting of the server": (EXAMPLE + "?options=-c%20shared_buffers%3D1GB", "options"),
    "a database that it may not use": (LOGIN + "db.example.com/postgres", "permission denied for database"),
    "JDBC": ("jdbc:postgresql://db.example.com/daira?user={role}&password=s3cr3t", "begins with"),
    "a standby is wanted": (EXAMPLE + "?target_session_attrs=prefer-standby", "read-write"),
    "channel binding without TLS": (EXAMPLE + "?sslmode=disable&channel_binding=require", "channel_binding"),
    "a misspelt parameter": (EXAMPLE + "?ssl_mode=require", "write sslmode"),
    "an unknown parameter": (EXAMPLE + "?supa=base-pooler.x", "unknown parameter supa"),
    "IPv6 without brackets": (LOGIN + "::1/daira", "in brackets"),
    "a port that is none": (LOGIN + "db.example.com:pgsql/daira", "a port is a number"),
    "keywords": ("host=db.example.com dbname=daira user={role} password=s3cr3t", "begins with"),
    "quotes of a shell": ('"' + EXAMPLE + '"', "begins with"),
}


@pytest.mark.parametrize("template", CONNECTED.values(), ids=CONNECTED)
async def test_every_part_of_the_program_connects(place: Place, template: str) -> None:
    if "[::1]" in template and not HAS_IPV6:
        pytest.skip("this machine has no IPv6")
    assert await _told(place.url(template, role="daira_app")) == []
    url = _settings(place.url(template, role="daira_app")).database_url.get_secret_value()
    engine = PostgresEngine(url, pool_size=1, name="test")
    try:
        (row,) = await engine.call("select current_user::text as login")
        assert row["login"].startswith("daira_app")
        heard = asyncio.Event()
        listening = await listen(url, "a_channel", heard)
        try:
            await engine.call("select pg_notify('a_channel', '')")
            async with asyncio.timeout(10):
                await heard.wait()
        finally:
            await listening.close()
    finally:
        await engine.close()
    assert await migrate(place.url(template, role="daira_owner").strip()) == head()


@pytest.mark.parametrize(("template", "told"), REFUSED.values(), ids=REFUSED)
async def test_one_line_says_what_to_change(place: Place, template: str, told: str) -> None:
    url = place.url(template, role="daira_app")
    (line,) = await _told(url)
    assert told in line
    _shows_no_secret(line)
    for act in (_call, migrate, _listen):
        with pytest.raises(DairaError) as refused:
            await act(url)
        assert told in str(refused.value)
        _shows_no_secret(str(refused.value))


async def _call(url: str) -> None:
    engine = PostgresEngine(url, pool_size=1, name="test")
    try:
        await engine.call("select 1")
    finally:
        await engine.close()


async def _listen(url: str) -> None:
    await listen(url, "a_channel", asyncio.Event())


def _shows_no_secret(line: str) -> None:
    assert "\n" not in line
    assert not [secret for secret in (SECRET, ENCODED, "s3cr", "of-the-key", "=wrong") if secret in line]


def _settings(url: str) -> Settings:
    return Settings(_env_file=None, database_url=url, blob_url="file:///b")


async def _told(url: str) -> list[str]:
    """The lines that a start, or else `daira doctor`, prints about it."""
    try:
        settings = _settings(url)
    except ValidationError as error:
        return [each["msg"] for each in error.errors(include_input=False)]
    return await guard.run_check("database", reach(settings))
