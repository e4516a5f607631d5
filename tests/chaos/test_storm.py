"""A storm of harm over many tenants' jobs, on a real Postgres and a real queue; then the proof that nothing came of it.

The full form: ./daira test -m slow tests/chaos/test_storm.py -n0 -s
With another seed: DAIRA_CHAOS_SEED=7 before it; docs/chaos.md says more.
"""

import os

import pytest

from tests.chaos.forms import ELSEWHERE, FULL, SHORT, Form
from tests.chaos.progress import say, table
from tests.chaos.queues import AWS
from tests.chaos.soak import Report, soak

SEED = int(os.environ.get("DAIRA_CHAOS_SEED", "20261129"))


async def run(form: Form, *, adapter: str) -> Report:
    say(f"\n{adapter}: seed {SEED}, {form.jobs:,} jobs of {form.tenants} tenants, {form.workers} workers")
    report = await soak(form, seed=SEED, adapter=adapter)
    table(report.figures)
    for expiry in report.unexplained:
        say(f"without a harm: {expiry}")
    for violation in report.violations:
        say(f"VIOLATED {violation.rule}: {violation.detail} (job {violation.job_id})")
    return report


@pytest.mark.timeout(300)
async def test_a_storm_loses_no_job_and_applies_none_twice() -> None:
    report = await run(SHORT, adapter="postgres")
    assert report.violations == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("adapter", "form"), [("postgres", FULL), ("redis", ELSEWHERE), ("sqs", ELSEWHERE)])
async def test_the_full_storm_loses_no_job_and_applies_none_twice(
    adapter: str, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    report = await run(form, adapter=adapter)
    assert report.violations == []
