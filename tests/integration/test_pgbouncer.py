"""Everything but LISTEN through PgBouncer in transaction mode: the suites hold, and no clamp reaches another client."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.faults import THROUGH_A_POOLER
from app.cli.operate import reach
from app.domain.errors import Unavailable
from app.guard import opened_checks, run_check
from app.ports.doorbell import Doorbell
from app.settings import Settings
from tests.conformance.caps_suite import CapsSuite
from tests.conformance.database_suite import DatabaseSuite
from tests.conformance.doorbell_suite import DoorbellSuite
from tests.conformance.drafts_suite import DraftsSuite
from tests.conformance.jobs_suite import JobsSuite
from tests.conformance.leases_suite import LeasesSuite
from tests.conformance.sweeps_suite import SweepsSuite
from tests.conformance.tenants_suite import TenantsSuite
from tests.support.databases import Cloned
from tests.support.pgbouncer import in_front_of
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig

pytestmark = pytest.mark.pgbouncer


@pytest.fixture
async def engine(cloned: Cloned) -> AsyncIterator[PostgresEngine]:
    with in_front_of(cloned.app_url) as url:
        engine = PostgresEngine(url, pool_size=10, name="test", pooled=True)
        yield engine
        assert engine.checked_out() == 0
        await engine.close()


@pytest.fixture
def rig(cloned: Cloned, engine: PostgresEngine) -> Rig:
    return postgres_rig(cloned, engine)


@pytest.fixture
async def doorbell(cloned: Cloned, engine: PostgresEngine) -> AsyncIterator[Doorbell]:
    doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=cloned.app_url, dropped=lambda _: None)
    yield doorbell
    await doorbell.close()


async def test_a_pooler_that_nobody_told_of_is_refused(cloned: Cloned) -> None:
    with in_front_of(cloned.app_url) as url:
        untold = Settings(_env_file=None, database_url=url, blob_url="file:///b")
        (fault,) = await poolers(untold)
        assert fault == THROUGH_A_POOLER
        told = Settings(_env_file=None, database_url=url, blob_url="file:///b", listen_url=cloned.app_url)
        assert await poolers(told) == []
        deaf = Settings(_env_file=None, database_url=url, blob_url="file:///b", listen_url=url)
        (fault,) = await poolers(deaf)
        assert "no bell would be heard" in fault


async def test_a_statement_that_is_gone_with_its_session_says_what_to_set(cloned: Cloned) -> None:
    engine = PostgresEngine(cloned.app_url, pool_size=1, name="untold")
    with pytest.raises(Unavailable, match="set DAIRA_LISTEN_URL"):
        await engine.call("execute prepared_in_another_session")
    await engine.close()


CONNECTED = [
    "",
    "&sslmode=prefer&application_name=x&connect_timeout=5",
    "&target_session_attrs=read-write&keepalives=1",
]


@pytest.mark.parametrize("parameters", CONNECTED)
async def test_urls_of_a_pooler_connect(cloned: Cloned, parameters: str) -> None:
    with in_front_of(cloned.app_url) as url:
        assert await _reached(url + parameters) == []


async def test_what_a_pooler_does_not_pass_on_is_named(cloned: Cloned) -> None:
    with in_front_of(cloned.app_url) as url:
        (line,) = await _reached(url + "&options=-c%20search_path%3Ddaira")
        assert "`options`" in line
        assert "startup parameter" in line


async def _reached(url: str) -> list[str]:
    told = Settings(_env_file=None, database_url=url, blob_url="file:///b", listen_url=url)
    return await run_check("database", reach(told))


class TestDatabaseThroughPgBouncer(DatabaseSuite):
    pass


class TestDraftsThroughPgBouncer(DraftsSuite):
    pass


class TestJobsThroughPgBouncer(JobsSuite):
    pass


class TestLeasesThroughPgBouncer(LeasesSuite):
    pass


class TestCapsThroughPgBouncer(CapsSuite):
    pass


class TestTenantsThroughPgBouncer(TenantsSuite):
    pass


class TestSweepsThroughPgBouncer(SweepsSuite):
    pass


class TestDoorbellThroughPgBouncer(DoorbellSuite):
    pass


@pytest.mark.threat(18)
async def test_a_thousand_interleaved_transactions_of_ten_tenants_see_their_own_rows_alone(rig: Rig) -> None:
    """Ten clients share three connections, and some leave in the middle."""
    tenants = [await rig.tenant(f"tenant-{n}") for n in range(10)]
    for tenant in tenants:
        await rig.enqueue(tenant)

    async def look(number: int) -> None:
        tenant = tenants[number % 10]
        async with rig.database.begin(tenant) as tx:
            jobs = await tx.jobs.newest()
            assert [job.tenant_id for job in jobs] == [tenant]
            await asyncio.sleep(0)
            assert len(await tx.jobs.newest()) == 1

    looks = [asyncio.create_task(look(number)) for number in range(1000)]
    for chosen in random.sample(looks, 200):
        asyncio.get_running_loop().call_later(2 * looks.index(chosen) / len(looks), chosen.cancel)
    outcomes = await asyncio.gather(*looks, return_exceptions=True)
    assert not [each for each in outcomes if each is not None and not isinstance(each, asyncio.CancelledError)]
    assert not any((await rig.tenantless_counts()).values())


async def poolers(settings: Settings) -> list[str]:
    async with opened_checks(settings) as checks:
        return await checks["poolers"]()
