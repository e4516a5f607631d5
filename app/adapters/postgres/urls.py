"""URLs of databases, read once by libpq's grammar: the servers, the login, and how a connection is made.

https://www.postgresql.org/docs/current/libpq-connect.html. A parameter that the driver can't honour is refused by its
name. No error repeats a value that may be a password.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from app.adapters.postgres.url_parameters import OF_FILES, OF_THE_DRIVER, SYSTEM, VERIFYING, decoded, read_parameters

SCHEMES = frozenset({"postgres", "postgresql", "postgresql+asyncpg"})
HOME_ROOTS = Path(".postgresql/root.crt")

LAST_PORT = 65_535
CONNECT_SECONDS = 10
CONNECT_SECONDS_OF_SEVERAL = 3
"""The time for each of several servers, because one that is switched off gives no answer."""

ESCAPED = "special characters of a password are percent-encoded: # is %23, / is %2F, ? is %3F, @ is %40"


URL = re.compile(
    r"(?:(?P<user>[^:@/?]*)(?::(?P<password>[^@/?]*))?@)?"
    r"(?P<hosts>[^@/?]*)(?:/(?P<dbname>[^?]*))?(?:\?(?P<query>.*))?"
)
ONE_HOST = re.compile(r"(?:\[(?P<ipv6>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[^:]*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresUrl:
    """A URL of a database, taken apart. None stands for what libpq's environment variables or defaults say."""

    hosts: tuple[tuple[str | None, int | None], ...]
    user: str | None
    password: str | None = field(repr=False)
    database: str | None
    parameters: Mapping[str, str] = field(repr=False)

    @property
    def target(self) -> str:
        """`any`, `primary` or `read-write`. Of several servers, the one that takes writes is wanted."""
        return self.parameters.get("target_session_attrs") or ("read-write" if len(self.hosts) > 1 else "any")

    @property
    def connect_seconds(self) -> float:
        """The time for one server. As with libpq, two seconds are the least, and 0 sets no time of its own."""
        seconds = int(self.parameters.get("connect_timeout", "0"))
        default = CONNECT_SECONDS_OF_SEVERAL if len(self.hosts) > 1 else CONNECT_SECONDS
        return max(seconds, 2) if seconds > 0 else default

    @property
    def address(self) -> str:
        """The servers and the database, without login: for people."""
        places = ",".join(f"{host or 'a socket'}:{port or 5432}" for host, port in self.hosts)
        return f"{places}/{self.database or ''}"

    def application(self, name: str) -> str:
        given = self.parameters.get("application_name") or self.parameters.get("fallback_application_name")
        return f"{given or 'daira'}-{name}"

    def arguments(self, server: int) -> dict[str, Any]:
        """The driver's arguments for one of the servers. TLS is left to the DSN, in which the driver reads it."""
        host, port = self.hosts[server]
        given = {name: self.parameters[name] for name in OF_THE_DRIVER if name in self.parameters}
        if given.get("sslrootcert") == SYSTEM:
            given.clear()
        settings = {"options": self.parameters["options"]} if "options" in self.parameters else {}
        return {
            "dsn": f"postgresql://?{urlencode(given, quote_via=quote)}" if given else None,
            "host": host,
            "port": port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "passfile": self.parameters.get("passfile"),
            "krbsrvname": self.parameters.get("krbsrvname"),
            "server_settings": settings,
            # The driver's own choice would stop at the first server that gives no answer.
            "target_session_attrs": "any",
        }


def parse_url(url: str) -> PostgresUrl:
    """Raises ValueError with one line that names what to change."""
    found = _split(url)
    parameters: dict[str, str] = read_parameters(found["query"] or "")
    hosts = _hosts(parameters.pop("host", "") or found["hosts"] or "", ports=parameters.pop("port", ""))
    return PostgresUrl(
        hosts=hosts,
        user=parameters.pop("user", "") or decoded(found["user"]),
        password=parameters.pop("password", "") or decoded(found["password"]),
        database=parameters.pop("dbname", "") or decoded(found["dbname"]),
        parameters=parameters,
    )


def check_files(url: PostgresUrl) -> None:
    """Raise ValueError if a file that the URL names can't be read, or if it must name one and does not."""
    named = {name: url.parameters[name] for name in OF_FILES if name in url.parameters}
    for name, path in named.items():
        if path == SYSTEM and name == "sslrootcert":
            continue
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise ValueError(f"{name}: {path} can't be read ({error.strerror})") from None
    if url.parameters.get("sslmode") in VERIFYING and "sslrootcert" not in named and not _has_roots_at_home():
        raise ValueError(
            f"sslmode={url.parameters['sslmode']} needs sslrootcert: the file of the server's authority, or `system`"
        )


def _has_roots_at_home() -> bool:
    with suppress(RuntimeError):
        return (Path.home() / HOME_ROOTS).exists()
    return False


def _split(url: str) -> Mapping[str, str | None]:
    scheme, _, login_and_place = url.partition("://")
    if scheme not in SCHEMES:
        raise ValueError(f"a URL that begins with {' or '.join(f'{scheme}://' for scheme in sorted(SCHEMES))}")
    if re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ValueError("a URL has no blanks and line breaks within: a blank is %20")
    found = URL.fullmatch(login_and_place)
    if found is None or "#" in url:
        raise ValueError(ESCAPED)
    parts = found.groupdict()
    rest = (parts["dbname"] or "") + (parts["query"] or "")
    if parts["hosts"] and parts["user"] is None and "@" in rest:
        # Cut off at a special character, a password would be taken for a host's name, or for nothing.
        raise ValueError(ESCAPED)
    return parts


def _hosts(hosts: str, *, ports: str) -> tuple[tuple[str | None, int | None], ...]:
    """Pairs of host and port. A path is a socket's folder, whatever colons it has."""
    places = [_host(part) for part in hosts.split(",")]
    numbers = [_port(part) for part in ports.split(",")]
    if len(numbers) not in {1, len(places)}:
        raise ValueError(f"port has {len(numbers)} numbers for {len(places)} hosts: write one, or one for each")
    numbers = numbers * len(places) if len(numbers) == 1 else numbers
    return tuple((host, number or own) for (host, own), number in zip(places, numbers, strict=True))


def _host(text: str) -> tuple[str | None, int | None]:
    place = decoded(text)
    if place is None or place.startswith(("/", "@")):
        return place, None
    found = ONE_HOST.fullmatch(text)
    if found is None:
        raise ValueError("an IPv6 address stands in brackets, such as [::1]:5432; : of a password is %3A")
    return decoded(found["ipv6"] or found["name"]), _port(decoded(found["port"]))


def _port(text: str | None) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"a port is a number, such as 5432; {ESCAPED}")
    if len(text) > len(str(LAST_PORT)) or not 0 < int(text) <= LAST_PORT:
        raise ValueError(f"a URL's port is at most {LAST_PORT}, and at least 1")
    return int(text)
