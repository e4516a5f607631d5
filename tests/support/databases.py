"""A real Postgres for the tests: one server for all, a template migrated once, a clone of it for each test."""

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from app.adapters.postgres.engine import administer
from app.adapters.postgres.isolation.roles import APP, OWNER, make_roles
from app.adapters.postgres.migrations import migrate
from app.embedded.server import EmbeddedPostgres
from tests.support.folders import quickest

VERSIONS = Path(__file__).parents[2] / "alembic" / "versions"


@dataclass(frozen=True, kw_only=True)
class Cloned:
    """One test's own database, seen by each role."""

    admin_url: str
    owner_url: str
    app_url: str


class Databases:
    def __init__(self) -> None:
        self._server = EmbeddedPostgres(_home(), durable=False, grace=timedelta(seconds=20))

    async def start(self) -> None:
        """Start or join the server; make the template when the migrations have changed."""
        self._server.start()
        self.template = f"template_{_fingerprint()}"
        admin = self._server.url()
        async with administer(admin) as connection:
            # Test processes that run side by side make the template once.
            await connection.execute("select pg_advisory_lock(1)")
            if await connection.fetchval("select true from pg_database where datname = $1", self.template):
                return
            making = f"making_{uuid4().hex[:12]}"
            await make_roles(admin, owner_url=self._url(OWNER, making), app_url=self._url(APP, making))
            await migrate(self._url(OWNER, making))
            await connection.execute(f"alter database {making} rename to {self.template}")

    @asynccontextmanager
    async def clone(self) -> AsyncIterator[Cloned]:
        name = f"test_{uuid4().hex[:12]}"
        async with administer(self._server.url()) as connection:
            await connection.execute(f"create database {name} template {self.template} strategy file_copy")
        try:
            yield Cloned(
                admin_url=self._url("postgres", name), owner_url=self._url(OWNER, name), app_url=self._url(APP, name)
            )
        finally:
            async with administer(self._server.url()) as connection:
                await connection.execute(f"drop database {name} with (force)")

    def close(self) -> None:
        self._server.close()

    def _url(self, user: str, database: str) -> str:
        return self._server.url(user=user, database=database)


def _home() -> Path:
    return quickest() / f"daira-tests-{os.getuid()}"


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for kind in ("*.py", "*.sql") for path in VERSIONS.rglob(kind)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
