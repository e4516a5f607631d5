"""The Postgres adapters keep the contracts, on a real server and with the rights that they have in production."""

from collections.abc import AsyncIterator

import pytest

from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import Engine
from app.ports.doorbell import Doorbell
from tests.conformance.database_suite import DatabaseSuite
from tests.conformance.documents_suite import DocumentsSuite
from tests.conformance.doorbell_suite import DoorbellSuite
from tests.conformance.jobs_suite import JobsSuite
from tests.conformance.keys_suite import KeysSuite
from tests.conformance.leases_suite import LeasesSuite
from tests.conformance.sweeps_suite import SweepsSuite
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig


@pytest.fixture
def rig(cloned: Cloned, engine: Engine) -> Rig:
    return postgres_rig(cloned, engine)


@pytest.fixture
async def doorbell(cloned: Cloned, engine: Engine) -> AsyncIterator[Doorbell]:
    doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=cloned.app_url)
    yield doorbell
    await doorbell.close()


class TestPostgresDatabase(DatabaseSuite):
    pass


class TestPostgresKeys(KeysSuite):
    pass


class TestPostgresDocuments(DocumentsSuite):
    pass


class TestPostgresJobs(JobsSuite):
    pass


class TestPostgresLeases(LeasesSuite):
    pass


class TestPostgresSweeps(SweepsSuite):
    pass


class TestPostgresDoorbell(DoorbellSuite):
    pass
