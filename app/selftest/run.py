"""One run of the selftest: register tenants, run the checks concurrently, and clean up whatever happens."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from app.selftest import delivery, recovery, separation, tenants
from app.selftest.bench import SelftestBench, error_text
from app.selftest.deployment import Deployment


class CheckVerdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    look: Callable[[SelftestBench], Awaitable[str]]
    """Runs the check: returns what it saw, or raises CheckFailed. Its docstring is the sentence that is shown."""
    needs_worker: bool = True

    @property
    def sentence(self) -> str:
        return (self.look.__doc__ or "").strip().removesuffix(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    check: Check
    verdict: CheckVerdict
    seen: str
    seconds: float = 0


class CheckObserver(Protocol):
    def started(self, check: Check) -> None: ...

    def found(self, finding: CheckFinding) -> None: ...


SET_UP = Check(name="set-up", look=tenants.register_tenants)
DELIVERY = Check(name="delivery", look=delivery.delivery)
CHECKS = (
    Check(name="isolation", look=separation.isolation, needs_worker=False),
    Check(name="blobs", look=separation.blobs, needs_worker=False),
    Check(name="shared blobs", look=separation.shared_blobs),
    Check(name="forged bell", look=separation.forged_bell),
    Check(name="lost bell", look=delivery.lost_bell),
    Check(name="duplicate bells", look=delivery.duplicate_bells),
    Check(name="cancel", look=delivery.cancel),
    Check(name="killed worker", look=recovery.killed_worker),
    Check(name="stale writer", look=recovery.stale_writer),
)
CLEAN_UP = Check(name="clean-up", look=tenants.remove_tenants)


async def selftest(
    deployment: Deployment, *, patience: timedelta, watcher: CheckObserver, checks: Sequence[Check] = CHECKS
) -> list[CheckFinding]:
    """Return every check's finding. Cancelling is safe: the tenants and blobs are removed all the same."""
    bench = SelftestBench(deployment, patience=patience)
    findings: list[CheckFinding] = []
    try:
        findings.append(await _find(SET_UP, bench, watcher))
        if findings[0].verdict is CheckVerdict.PASSED:
            findings += await _check_all(checks, bench, watcher)
    finally:
        findings.append(await _find(CLEAN_UP, bench, watcher))
    return findings


async def _check_all(checks: Sequence[Check], bench: SelftestBench, watcher: CheckObserver) -> list[CheckFinding]:
    """Run the checks concurrently, so that all take about as long as the slowest.

    Checks that need a worker are skipped if the delivery check finds none, because they could only wait.
    """
    delivered = asyncio.ensure_future(_find(DELIVERY, bench, watcher))

    async def find(check: Check) -> CheckFinding:
        if check.needs_worker and (await delivered).verdict is not CheckVerdict.PASSED:
            skipped = CheckFinding(check=check, verdict=CheckVerdict.SKIPPED, seen="needs a worker, see delivery")
            watcher.found(skipped)
            return skipped
        return await _find(check, bench, watcher)

    return list(await asyncio.gather(delivered, *map(find, checks)))


async def _find(check: Check, bench: SelftestBench, watcher: CheckObserver) -> CheckFinding:
    watcher.started(check)
    started = time.monotonic()
    verdict = CheckVerdict.FAILED
    try:
        seen = await check.look(bench)
        verdict = CheckVerdict.PASSED
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this check's finding, and the others go on
        seen = error_text(error)
    finding = CheckFinding(check=check, verdict=verdict, seen=seen, seconds=time.monotonic() - started)
    watcher.found(finding)
    return finding
