"""Slots shared fairly over time: jobs that wait for recognition, and the time that a job has worked.

Expand, deploy, contract: the previous release runs on this schema while the new one starts. The SQL is in the folder of
the same name, frozen once it is released: one function a file, and a function that changes is a whole new file here.
"""

from pathlib import Path

from app.adapters.postgres.migrations import execute, script

revision = "20261201_0500"
down_revision = "20261130_2300"
branch_labels = None
depends_on = None

# In this order.
FILES = (
    "tables.sql",
    "functions/claim.sql",
    "functions/end_attempts.sql",
    "functions/settle.sql",
    "functions/sweep.sql",
    "functions/tenants_with_due_work.sql",
    "grants.sql",
)


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    execute(__file__, *FILES)


def downgrade() -> None:
    execute(__file__, "downgrade.sql")
    execute(str(Path(__file__).with_name("20261130_2300_baseline")), *FILES[1:6])
    execute(__file__, "downgrade_grants.sql")
