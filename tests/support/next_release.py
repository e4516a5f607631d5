"""A release after this one, made up: its migration is rendered from the template and brings its own folder of SQL."""

import shutil
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import Script

ROOT = Path(__file__).parents[2]

REVISION = "20990101_0000"

# The expand step: all that a release may do under the one before it. It comes to `jobs` before `api_keys`.
FILES = {
    "tables.sql": """
alter table daira.jobs add column note text;
grant update (note) on daira.jobs to daira_app;
create index jobs_noted on daira.jobs (tenant_id, note) where note is not null;
alter table daira.api_keys add column note text not null default '';
create table daira.notes (
    tenant_id text not null,
    id uuid not null,
    constraint notes_pkey primary key (tenant_id, id),
    constraint notes_tenant_check check (tenant_id <> '')
);
alter table daira.notes enable row level security;
alter table daira.notes force row level security;
create policy tenant_rows on daira.notes as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.notes as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
grant select, insert on daira.notes to daira_app;
""",
    "functions/zulu.sql": """
create or replace function daira.zulu(p_moment timestamptz)
returns text
language sql
stable
security invoker
as $$
    select to_char(p_moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || 'Z'
$$;
""",
    "downgrade.sql": """
drop table daira.notes;
alter table daira.api_keys drop column note;
alter table daira.jobs drop column note;
""",
}


def add_migration(folder: Path) -> Path:
    """Copy alembic.ini and the migrations into this folder and add one more. Returns the new alembic.ini."""
    ini = folder / "alembic.ini"
    shutil.copy(ROOT / "alembic.ini", ini)
    shutil.copytree(ROOT / "alembic", folder / "alembic", ignore=shutil.ignore_patterns("__pycache__"))
    script = command.revision(Config(str(ini)), message="next release", rev_id=REVISION)
    assert isinstance(script, Script)
    path = Path(script.path)
    path.write_text(path.read_text().replace('("tables.sql",)', '("tables.sql", "functions/zulu.sql")'))
    for name, sql in FILES.items():
        file = path.with_suffix("") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(sql)
    return ini
