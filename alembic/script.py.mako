"""${message}.

Expand, deploy, contract: the previous release runs on this schema while the new one starts. The SQL is in the folder of
the same name, frozen once it is released: one function a file, and a function that changes is a whole new file here.
"""

from app.adapters.postgres.migrations import execute, script

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}

# In this order.
FILES = ("tables.sql",)


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    execute(__file__, *FILES)


def downgrade() -> None:
    execute(__file__, "downgrade.sql")
