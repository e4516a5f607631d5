"""The schema of the first release. Its SQL is in the folder of the same name."""

from app.adapters.postgres.migrations import execute, script

revision = "20261130_2300"
down_revision = None
branch_labels = None
depends_on = None

FILES = (
    "tables.sql",
    "row_level_security.sql",
    "functions/announce.sql",
    "functions/answer.sql",
    "functions/backlog.sql",
    "functions/beat.sql",
    "functions/begin_attempts.sql",
    "functions/changes.sql",
    "functions/claim.sql",
    "functions/end_attempts.sql",
    "functions/live_jobs.sql",
    "functions/presented_key.sql",
    "functions/renew.sql",
    "functions/ring.sql",
    "functions/room.sql",
    "functions/settle.sql",
    "functions/sweep.sql",
    "functions/tenants_with_due_work.sql",
    "functions/uuid7.sql",
    "functions/zulu.sql",
    "grants.sql",
    "scout.sql",
)


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    execute(__file__, *FILES)


def downgrade() -> None:
    execute(__file__, "downgrade.sql")
