"""Parameters of a database's URL: those that have an effect, those without one, and what to write for the others.

https://www.postgresql.org/docs/current/libpq-connect.html. No error repeats a value that may be a password.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
LAX = frozenset({"disable", "allow", "prefer"})
"""The modes that do without TLS, or may."""
VERIFYING = frozenset({"verify-ca", "verify-full"})
TLS_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
LOWEST_TLS = "TLSv1.2"
"""The driver's least, if the URL names none."""
SYSTEM = "system"
"""The value of `sslrootcert` for the certificate authorities that this machine trusts."""

OF_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
OF_THE_DRIVER = (
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslcrl",
    "sslnegotiation",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
)
"""The parameters that the driver itself understands in a DSN."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "channel_binding": ("disable", "prefer", "require"),
    "sslmode": SSL_MODES,
    "sslnegotiation": ("postgres", "direct"),
    "ssl_min_protocol_version": TLS_VERSIONS,
    "ssl_max_protocol_version": TLS_VERSIONS,
    "keepalives": ("0", "1"),
}
WITHOUT_EFFECT: Mapping[str, tuple[str, ...]] = {
    "client_encoding": ("auto", "utf8", "UTF8", "utf-8", "UTF-8"),
    "gssencmode": ("disable", "prefer"),
    "gssdelegation": ("0",),
    "load_balance_hosts": ("disable", "random"),
    "max_protocol_version": ("3.0", "latest"),
    "min_protocol_version": ("3.0",),
    "sslcertmode": ("allow",),
    "sslcompression": ("0", "1"),
    "sslsni": ("1",),
}
"""The values that ask for what happens anyway."""
NUMBERS = (
    "connect_timeout",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
)
TEXTS = ("application_name", "fallback_application_name", "options", "krbsrvname")
PLACES = ("host", "port", "user", "password", "dbname")
ALIASES = {"ssl": "sslmode", "database": "dbname", "requiressl": "sslmode"}
ALIAS_VALUES = {"true": "require", "1": "require", "false": "disable", "0": "prefer"}
"""The values of other drivers' `ssl` and of the old `requiressl`."""
TARGETS = ("any", "primary", "read-write")

POOLER = "leave it out, and set DAIRA_LISTEN_URL to a direct connection if the URL leads through a pooler"
POOL = "leave it out: the size of the pool is DAIRA_POOL_SIZE"
SCHEMA = "leave it out: the tables are in the schema daira"
WRITTEN_OUT = "write host, port, user, password and database into the URL"
NOT_THERE = "leave it out: the driver does not have it"
INSTEAD: Mapping[str, str] = {
    "channel_binding": "write sslmode=require, or leave it out",
    "connection_limit": POOL,
    "currentSchema": SCHEMA,
    "gssencmode": "the driver has no encryption by GSSAPI; write sslmode=require",
    "hostaddr": "write the address as the host",
    "pgbouncer": POOLER,
    "pool_size": POOL,
    "pool_timeout": POOL,
    "prepareThreshold": POOLER,
    "prepared_statement_cache_size": POOLER,
    "prepared_statements": POOLER,
    "replication": NOT_THERE,
    "require_auth": NOT_THERE,
    "requirepeer": NOT_THERE,
    "schema": SCHEMA,
    "search_path": SCHEMA,
    "service": WRITTEN_OUT,
    "servicefile": WRITTEN_OUT,
    "sslaccept": "write sslmode=verify-full, or sslmode=require",
    "sslcrldir": "write sslcrl, a file",
    "statement_cache_size": POOLER,
    "target_session_attrs": "the service writes, so write read-write, or leave it out",
}
KNOWN = (*PLACES, *ALIASES, *OF_FILES, *OF_THE_DRIVER, *CHOICES, *NUMBERS, *TEXTS, *WITHOUT_EFFECT, *INSTEAD)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,40}")
PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")


def decoded(text: str | None) -> str | None:
    if not text:
        return None
    if PERCENT.search(text):
        raise ValueError("a percent sign stands before two hexadecimal digits; one of a password is %25")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("percent-encoded letters are in UTF-8") from None


def read_parameters(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    secret = "password=" in query
    for part in filter(None, query.split("&")):
        encoded, equals, text = part.partition("=")
        name, value = decoded(encoded) or "", decoded(text) or ""
        if not equals or not NAME.fullmatch(name):
            raise ValueError("parameters look like ?sslmode=require&connect_timeout=10; & of a password is %26")
        if name in ALIASES:
            name, value = ALIASES[name], ALIAS_VALUES.get(value, value)
        if value:
            _check_parameter(name, value, secret=secret)
            # SQLAlchemy's form of several servers repeats it.
            found[name] = f"{found[name]},{value}" if name == "host" and "host" in found else value
    if found.get("channel_binding") == "require":
        _verify_instead_of_binding(found)
    _check_tls(found)
    return {name: value for name, value in found.items() if name not in WITHOUT_EFFECT}


def _check_parameter(name: str, value: str, *, secret: bool) -> None:
    if checked := _CHECKS.get(name):
        checked(name, value)
    elif name in INSTEAD:
        raise ValueError(f"{name} is not supported: {INSTEAD[name]}")
    elif secret:
        raise ValueError("an unknown parameter stands beside `password`: & of a password is %26")
    else:
        near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.75)
        hint = f"write {near[0]}" if near else f"leave it out; a server's own setting is options=-c%20{name}%3D…"
        raise ValueError(f"unknown parameter {name}: {hint}")


def _is_any(_name: str, _value: str) -> None: ...


def _is_one(name: str, value: str) -> None:
    choices = CHOICES[name]
    if value not in choices:
        raise ValueError(f"{name} is {', '.join(choices[:-1])} or {choices[-1]}")


def _is_number(name: str, value: str) -> None:
    if not re.fullmatch(r"-?[0-9]{1,9}", value):
        raise ValueError(f"{name} is a whole number")


def _has_no_effect(name: str, value: str) -> None:
    if value not in WITHOUT_EFFECT[name]:
        instead = INSTEAD.get(name, f"leave it out, or write {WITHOUT_EFFECT[name][0]}")
        raise ValueError(f"{name} with this value is not supported: {instead}")


def _is_target(name: str, value: str) -> None:
    if value not in TARGETS:
        raise ValueError(f"{name} with this value is not supported: {INSTEAD[name]}")


_CHECKS: Mapping[str, Callable[[str, str], None]] = (
    dict.fromkeys((*PLACES, *OF_FILES, *OF_THE_DRIVER, *TEXTS), _is_any)
    | dict.fromkeys(CHOICES, _is_one)
    | dict.fromkeys(NUMBERS, _is_number)
    | dict.fromkeys(WITHOUT_EFFECT, _has_no_effect)
    | {"target_session_attrs": _is_target}
)


def _verify_instead_of_binding(given: dict[str, str]) -> None:
    """Ask for a verified certificate, which keeps out what channel binding does: somebody in between.

    The driver has no channel binding, and providers' URLs ask for it.
    """
    if (mode := given.get("sslmode")) in LAX:
        raise ValueError(f"channel_binding=require does not go with sslmode={mode}: {INSTEAD['channel_binding']}")
    given["sslmode"] = "verify-full"
    given.setdefault("sslrootcert", SYSTEM)


def _check_tls(given: Mapping[str, str]) -> None:
    mode, authority = given.get("sslmode"), given.get("sslrootcert")
    if authority == SYSTEM and mode not in {None, "verify-full"}:
        raise ValueError("sslrootcert=system needs sslmode=verify-full")
    if given.get("sslnegotiation") == "direct" and mode not in {"require", *VERIFYING} and authority != SYSTEM:
        raise ValueError("sslnegotiation=direct needs sslmode=require, verify-ca or verify-full")
    lowest = given.get("ssl_min_protocol_version", LOWEST_TLS)
    if (highest := given.get("ssl_max_protocol_version", TLS_VERSIONS[-1])) < lowest:
        raise ValueError(f"ssl_max_protocol_version={highest} is below ssl_min_protocol_version, which is {lowest}")
