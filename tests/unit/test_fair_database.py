"""Connections in turns: a tenant's transactions take its share of the pool, and searches a part of that."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from app.domain.ids import TenantId
from app.services.fair_database import FairDatabase
from app.services.search import search_turns
from tests.support.rig import memory_rig
from tests.unit.waiting import settled

GLOBEX = TenantId("globex")


async def test_a_tenant_has_its_share_of_the_connections_and_another_finds_some() -> None:
    rig = memory_rig()
    tenant, other = await rig.tenant("acme"), await rig.tenant("globex")
    database = FairDatabase(rig.database, pool_size=10)
    async with AsyncExitStack() as stack:
        for _ in range(5):
            await stack.enter_async_context(database.begin(tenant))
        sixth = asyncio.create_task(stack.enter_async_context(database.begin(tenant)))
        await settled()
        assert not sixth.done()
        assert database.turns.working(tenant) == 5
        async with asyncio.timeout(5), database.begin(other):
            pass
        sixth.cancel()
        await asyncio.gather(sixth, return_exceptions=True)
    assert database.turns.idle


@pytest.mark.parametrize("pool_size", [1, 2, 3, 4, 10, 50])
async def test_every_pool_serves_one_tenant_and_all_but_the_smallest_keep_connections_back(pool_size: int) -> None:
    turns = FairDatabase(None, pool_size=pool_size).turns  # type: ignore[arg-type]
    async with AsyncExitStack() as stack, asyncio.timeout(5):
        await stack.enter_async_context(turns.turn(TenantId("acme")))
        if pool_size > 3:
            await stack.enter_async_context(turns.turn(GLOBEX))
            assert turns._at_once <= pool_size - 2
            assert turns._share < turns._at_once


async def test_searches_leave_connections_to_everything_else() -> None:
    turns = search_turns(10)
    assert turns._share == 2
    assert turns._at_once == 4
    turns = search_turns(1)
    assert turns._share == turns._at_once == 1
