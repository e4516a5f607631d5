"""No query used the partial indexes of live and of queued jobs: each look of the sweeper walked the whole table.

Their conditions end in `kind is not null` and `ring_after is not null`, which keeps a claim by id from being proven
against them. Since PostgreSQL 17 the planner drops IS NOT NULL on a NOT NULL column from a query, and then can't prove
the index's condition either. So the two columns are held by checks, which it does not look at for that. Measured with
220,000 jobs, 4,000 of them live: 97 ms a look before, 0.4 ms after. The backlog did not name the condition at all.
"""

from alembic import context

from app.adapters.postgres.ddl import replace_backlog
from app.adapters.postgres.migrations import script

revision = "20261129_2335"
down_revision = "20261129_2330"
branch_labels = None
depends_on = None

LIVE = "where j.state in ('queued', 'claimed')"


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script("""
        alter table daira.jobs
            add constraint jobs_kind_there check (kind is not null),
            add constraint jobs_ring_there check (ring_after is not null),
            alter column kind drop not null,
            alter column ring_after drop not null;
    """)
    replace_backlog(_backlog().replace(LIVE, f"{LIVE} and j.kind is not null"))


def downgrade() -> None:
    replace_backlog(_backlog())
    script("""
        alter table daira.jobs
            alter column kind set not null,
            alter column ring_after set not null,
            drop constraint jobs_kind_there,
            drop constraint jobs_ring_there;
    """)


def _backlog() -> str:
    before: str = context.script.get_revision("20261129_0902").module.BACKLOG
    return before.replace("create function", "create or replace function")
