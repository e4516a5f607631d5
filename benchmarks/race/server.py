"""The one server that all competitors share, each in a database of its own: as durable as in production."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg

from app.adapters.postgres.engine import administer
from app.embedded.locks import ClusterLocks
from app.embedded.server import EmbeddedPostgres

HOME = Path("/var/tmp") / f"daira-race-{os.getuid()}"  # noqa: S108 - /tmp may be memory, where a sync costs nothing
SHOWN = (
    "server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level", "wal_sync_method",
    "shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum", "autovacuum_naptime", "jit",
    "shared_preload_libraries",
)  # fmt: skip


class Busy(Exception):
    """Another run is active, and the two would measure each other."""


class Server:
    def __init__(self, postgres: EmbeddedPostgres, admin: asyncpg.Connection) -> None:
        self._postgres = postgres
        self.admin = admin
        """A connection to a database that no competitor uses."""

    async def make(self, database: str) -> str:
        """Make an empty database, even if an earlier run has left one. Returns the superuser's URL."""
        await self.admin.execute(f"drop database if exists {database} with (force)")
        await self.admin.execute(f"create database {database}")
        return self._postgres.url(database=database)

    async def settings(self) -> dict[str, str]:
        return {name: await self.admin.fetchval("select current_setting($1)", name) for name in SHOWN}


@asynccontextmanager
async def open_server() -> AsyncIterator[Server]:
    """Start a server for this run, removed with its folder at the end. Raises Busy."""
    postgres = EmbeddedPostgres(HOME, durable=True, grace=timedelta(seconds=1))
    await asyncio.to_thread(postgres.start)
    alone = False
    try:
        async with administer(postgres.url()) as admin:
            alone = await admin.fetchval("select pg_try_advisory_lock(4)")
            if not alone:
                raise Busy("another run of this benchmark is on: wait for its end")
            yield Server(postgres, admin)
    finally:
        postgres.close()
        # The server stops by itself when no process uses it any more.
        if alone and await asyncio.to_thread(ClusterLocks(HOME).server.is_free_within, timedelta(seconds=60)):
            shutil.rmtree(HOME, ignore_errors=True)
