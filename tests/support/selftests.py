"""A selftest in this process, on a deployment of the test's, and what it may have left."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from app.adapters.postgres.engine import administer
from app.bootstrap import open_runtime
from app.cli.selftest import deployment
from app.selftest.run import CHECKS, Check, CheckFinding, CheckVerdict, selftest
from app.settings import Role, Settings
from app.telemetry import Metrics
from tests.support.databases import Cloned
from tests.support.postgres_rig import TENANT_TABLES

TABLES = [table.name for table in TENANT_TABLES] + ["doorbells"]


def environment_of(cloned: Cloned, folder: Path) -> dict[str, str]:
    return {"DAIRA_DATABASE_URL": cloned.app_url, "DAIRA_BLOB_URL": (folder / "blobs").as_uri()}


def settings_of(cloned: Cloned, folder: Path, **given: Any) -> Settings:
    ours: dict[str, Any] = {"database_url": cloned.app_url, "blob_url": (folder / "blobs").as_uri()}
    ours |= {"ocr": "null", "sweep_seconds": 1}
    return Settings(_env_file=None, **ours | given)


async def find(
    settings: Settings, *, patience: float = 0.5, worker: Settings | None = None, checks: set[str] | None = None
) -> dict[str, CheckFinding]:
    """By the check's name; with a worker in this process, where its settings are given."""
    chosen = [check for check in CHECKS if checks is None or check.name in checks]
    async with AsyncExitStack() as stack:
        if worker is not None:
            await stack.enter_async_context(_working(worker))
        tested = await stack.enter_async_context(deployment(settings.without_worker()))
        findings = await selftest(tested, patience=timedelta(seconds=patience), watcher=_Nobody(), checks=chosen)
    return {finding.check.name: finding for finding in findings}


class _Nobody:
    """Watches nothing."""

    def started(self, check: Check) -> None: ...

    def found(self, finding: CheckFinding) -> None: ...


@asynccontextmanager
async def _working(settings: Settings) -> AsyncIterator[None]:
    async with open_runtime(settings.model_copy(update={"role": Role.WORKER}), Metrics()) as runtime:
        assert runtime.worker is not None
        runtime.worker.start()
        yield
        await runtime.worker.stop()


def failed(found: dict[str, CheckFinding]) -> set[str]:
    return {name for name, finding in found.items() if finding.verdict is not CheckVerdict.PASSED}


async def rows_of(cloned: Cloned) -> dict[str, int]:
    async with administer(cloned.admin_url) as admin:
        return {table: await admin.fetchval(f"select count(*) from daira.{table}") for table in TABLES}
