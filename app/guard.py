"""The start-up guard: what would lose work or leak a tenant is refused in production, all of it named at once."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import structlog

from app.adapters.llm.client import LOOPBACK
from app.adapters.postgres.capacity import connection_room
from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.engine import PostgresEngine, is_shared
from app.adapters.postgres.faults import THROUGH_A_POOLER
from app.adapters.postgres.isolation import checks as database_checks
from app.adapters.postgres.isolation import grants, policies, tables
from app.domain.errors import DairaError, Misconfigured, Unavailable
from app.domain.ids import TenantId
from app.settings import Settings
from app.wiring import connection_budget

DEVELOPMENT_TENANT = TenantId("dev")
DEVELOPMENT_KEY = "daira up"
"""The name of the key that `daira up` makes: known to whoever can read a developer's disk."""

EXIT_REFUSED = 78
"""The exit status: EX_CONFIG of sysexits.h."""

CONNECTIONS = "connections"
NO_DEVELOPMENT_KEY = "no development key"

CHECKS = database_checks.CHECKS | policies.CHECKS | grants.CHECKS | tables.CHECKS

CheckCall = Callable[[], Awaitable[list[str]]]
DatabaseCheck = Callable[[PostgresEngine], Awaitable[list[str]]]

log = structlog.get_logger()


@asynccontextmanager
async def opened_checks(settings: Settings) -> AsyncIterator[dict[str, CheckCall]]:
    """Every check by name; each answers with its faults. Those of the database share one connection."""

    async def of_settings() -> list[str]:
        return settings_faults(settings)

    if settings.embedded or settings.memory_store:
        yield {"settings": of_settings}
        return
    url = settings.database_url.get_secret_value()
    engine = PostgresEngine(url, pool_size=1, name="guard", pooled=settings.pooled)

    def on_database(check: DatabaseCheck) -> CheckCall:
        return lambda: check(engine)

    database = CHECKS | {NO_DEVELOPMENT_KEY: _no_development_key}
    made = {name: on_database(check) for name, check in database.items()}
    made[CONNECTIONS] = on_database(lambda engine: _connections(settings, engine))
    try:
        yield {"settings": of_settings, "poolers": lambda: _poolers(settings)} | made
    finally:
        await engine.close()


async def faults(settings: Settings) -> list[str]:
    """All faults, each on a line. Raises Unavailable where there is none so far and the database can't be asked."""
    found: list[str] = []
    reasons: set[str] = set()
    async with opened_checks(settings) as checks:
        for name, check in checks.items():
            try:
                found += await _faults_of(name, check)
            except Misconfigured as error:
                # A login that is refused is one fault, not one of each check.
                found += [f"{name}: {error}"] if str(error) not in reasons else []
                reasons.add(str(error))
            except Unavailable as error:
                if not found:
                    raise
                # What is unsafe already stays so, and the other checks would only say this again.
                return [*found, f"{name}: {error}"]
    return found


async def run_check(name: str, check: CheckCall) -> list[str]:
    """A check that can't be made is a fault too: for `daira doctor`, which waits for nothing."""
    try:
        return await _faults_of(name, check)
    except Unavailable as error:
        return [f"{name}: {error}"]


async def _faults_of(name: str, check: CheckCall) -> list[str]:
    """Raises Unavailable where the database could not be asked, because that is no answer."""
    try:
        return await check()
    except Unavailable:
        raise
    except DairaError as error:
        return [f"{name}: {error}"]
    except Exception as error:  # noqa: BLE001 - one check that fails in an unforeseen way hides none of the others
        return [f"{name}: could not be checked ({type(error).__name__}: {error})".replace("\n", " ")]


def settings_faults(settings: Settings) -> list[str]:
    unsafe = {
        "DAIRA_DATABASE_URL is empty: the embedded Postgres is for development; name a server": settings.embedded,
        "DAIRA_DATABASE_URL=memory:// loses all work on a restart; name a Postgres": settings.memory_store,
        "DAIRA_QUEUE_URL=memory:// rings in one process only; name a real queue": settings.memory_queue,
        "DAIRA_BLOB_URL=memory:// loses all documents on a restart; use s3://, or file:// on a shared volume": (
            settings.memory_blobs
        ),
        "DAIRA_BLOB_URL is empty: say where documents are kept": not settings.blob_url,
        "DAIRA_OIDC_ISSUER is not https: whoever sits between could let anybody in": settings.oidc_issuer.startswith(
            "http:"
        ),
        "DAIRA_LLM_BASE_URL is not https: whoever sits between could take DAIRA_LLM_API_KEY": _shows_llm_key(settings),
        "DAIRA_DEBUG=true shows tracebacks to callers": settings.debug,
        "DAIRA_CORS_ORIGINS=* lets any site call the API from a browser; list the origins": "*"
        in settings.cors_origins,
    }
    return [fault for fault, present in unsafe.items() if present]


def _shows_llm_key(settings: Settings) -> bool:
    url = urlsplit(settings.llm_base_url)
    return bool(settings.llm_api_key.get_secret_value()) and url.scheme == "http" and url.hostname not in LOOPBACK


async def _poolers(settings: Settings) -> list[str]:
    if not settings.pooled:
        return [THROUGH_A_POOLER] if await is_shared(settings.database_url.get_secret_value()) else []
    if not settings.queue_url.get_secret_value() and await is_shared(settings.listen_url.get_secret_value()):
        return ["DAIRA_LISTEN_URL leads through a pooler in transaction mode: no bell would be heard"]
    return []


async def _connections(settings: Settings, engine: PostgresEngine) -> list[str]:
    """Compare what this process may hold with what the server admits. A server that is full for now is no fault."""
    own, room = sum(connection_budget(settings).direct.values()), await connection_room(engine)
    if own > room.limit:
        held = f"this process may hold {own} connections, and {room.setting} admits {room.limit}"
        return [f"{held}: raise that, lower DAIRA_POOL_SIZE, or put a pooler in between (docs/sizing.md)"]
    if own > room.free:
        log.warning("connections_scarce", own=own, free=room.free, limit=room.limit)
    return []


async def connections_explained(settings: Settings, engine: PostgresEngine) -> str:
    """The sum and its parts, for `daira doctor`."""
    budget, room = connection_budget(settings), await connection_room(engine)
    own, pooled = sum(budget.direct.values()), sum(budget.pooled.values())
    through = f", and {pooled} to the pooler ({_parts(budget.pooled)})" if pooled else ""
    more = f", room for {room.free // own} more such processes" if own else ""
    return (
        f"{own} at most for a process of role {settings.role}{f' ({_parts(budget.direct)})' if own else ''}{through};"
        f" {room.setting} admits {room.limit}, {room.used} are in use{more}"
    )


def _parts(budget: Mapping[str, int]) -> str:
    return " + ".join(f"{count} {purpose}" for purpose, count in budget.items())


async def _no_development_key(engine: PostgresEngine) -> list[str]:
    async with PostgresDatabase(engine).begin(DEVELOPMENT_TENANT) as tx:
        keys = [key for key in await tx.keys.all() if key.name == DEVELOPMENT_KEY and key.revoked_at is None]
    return [
        f"tenant {DEVELOPMENT_TENANT} has the key of `daira up`, {key.id}, which stands in a file of a developer's:"
        f" revoke it with `daira key revoke {DEVELOPMENT_TENANT} {key.id}`"
        for key in keys
    ]
