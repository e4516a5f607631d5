"""A tenant and its key, made in this process: a command for each would take longer than most tests."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.sweeps import PostgresSweeps
from app.domain.ids import tenant_id
from app.domain.tenants import Allowance
from app.services.tenants import TenantService

ALLOWANCE = Allowance(max_running=None, max_queued=1, max_upload_bytes=1, requests_per_minute=1)
"""Of no account here: the service that is asked later has its own."""


def new_key(database_url: str, tenant: str = "acme") -> str:
    """Of a tenant that is not there yet."""
    # The caller may be in a loop, which can't be entered twice.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_new_key(database_url, tenant))).result()


async def _new_key(database_url: str, tenant: str) -> str:
    engine = PostgresEngine(database_url, pool_size=0, name="tests")
    tenants = TenantService(database=PostgresDatabase(engine), sweeps=PostgresSweeps(engine), allowance=ALLOWANCE)
    try:
        await tenants.create(tenant_id(tenant))
        return await tenants.issue_key(tenant_id(tenant), name="tests")
    finally:
        await engine.close()
