"""The Postgres queue serves tenants in turn: a tenant with ten thousand bells keeps nobody's one waiting.

Each bell has a turn, its place in the order of service: one more than the tenant's last bell, and no less than the
turn that is being served. So a tenant's k-th bell waits for the others' k-th, and one that comes late joins the round
that is on. (Start-time fair queueing, Goyal, Vin and Cheng 1997, with bells of equal length.) Both numbers are one
index probe away; no tenant has a row of its own, and nothing is scanned over tenants.

A delayed bell has no turn yet. It gets one when its time has come, from the first worker that asks.
"""

from app.adapters.postgres.ddl import ATTRIBUTES, let_the_app_call
from app.adapters.postgres.migrations import script

revision = "20261129_2315"
down_revision = "20261129_2310"
branch_labels = None
depends_on = None

TABLE = """
delete from daira.doorbells;
alter table daira.doorbells add column turn bigint;
drop index daira.doorbells_due;
create index doorbells_turn on daira.doorbells (lane, turn) where turn is not null;
create index doorbells_of_tenant on daira.doorbells (lane, tenant_id, turn) where turn is not null;
create index doorbells_due on daira.doorbells (lane, due_at) where turn is null;
grant update (turn) on daira.doorbells to daira_app;
"""

# Sorted, or concurrent batches deadlock. One bell for a job is enough: the sooner one counts, and a turn is kept.
RING = f"""
create function daira.ring(p_lane text, p_tenants text[], p_jobs uuid[], p_delay interval) returns void
{ATTRIBUTES}
declare
    v_now boolean := p_delay <= interval '0';
    v_turn bigint := case when v_now then coalesce(
        (select d.turn from daira.doorbells d where d.lane = p_lane and d.turn is not null order by d.turn limit 1), 0) end;
begin
    insert into daira.doorbells as d (lane, tenant_id, job_id, due_at, turn)
    select p_lane, w.tenant_id, w.job_id, now() + p_delay, case when v_now then greatest(v_turn, (
               select x.turn from daira.doorbells x
               where x.lane = p_lane and x.tenant_id = w.tenant_id and x.turn is not null order by x.turn desc limit 1
           )) + w.place end
    from (
        select u.t as tenant_id, u.j as job_id, row_number() over (partition by u.t order by u.j) as place
        from (select distinct t, j from unnest(p_tenants, p_jobs) as u(t, j)) u
    ) w
    order by w.tenant_id, w.job_id
    on conflict (lane, tenant_id, job_id) do update
        set due_at = least(d.due_at, excluded.due_at), turn = coalesce(d.turn, excluded.turn);
end $$
"""

# Taken is gone: each bell wakes one worker, and a worker that dies with it costs one sweep. Where there is none, one
# row says in how many seconds the next delayed bell is due.
ANSWER = f"""
create function daira.answer(p_lane text, p_limit int)
returns table (tenant_id text, job_id uuid, wait double precision)
{ATTRIBUTES}
declare
    v_turn bigint;
begin
    if exists (select from daira.doorbells d where d.lane = p_lane and d.turn is null and d.due_at <= now()) then
        select coalesce(min(d.turn), 0) into v_turn from (
            select x.turn from daira.doorbells x where x.lane = p_lane and x.turn is not null order by x.turn limit 1
        ) d;
        update daira.doorbells d
           set turn = greatest(v_turn, (
               select x.turn from daira.doorbells x
               where x.lane = p_lane and x.tenant_id = d.tenant_id and x.turn is not null order by x.turn desc limit 1
           )) + w.place
          from (
            select l.tenant_id, l.job_id, row_number() over (partition by l.tenant_id order by l.due_at) as place
            from (
                select x.tenant_id, x.job_id, x.due_at from daira.doorbells x
                where x.lane = p_lane and x.turn is null and x.due_at <= now()
                order by x.due_at limit 1000 for update skip locked
            ) l
          ) w
         where d.lane = p_lane and d.tenant_id = w.tenant_id and d.job_id = w.job_id;
    end if;

    return query
    -- By place, or a plan made while the table was small walks the whole lane for each bell. One that was rung again
    -- between the look and the lock has another place by now, and is taken the next time.
    delete from daira.doorbells d where d.ctid = any (array(
        select x.ctid from daira.doorbells x
        where x.lane = p_lane and x.turn is not null order by x.turn limit p_limit for update skip locked
    ))
    returning d.tenant_id, d.job_id, null::double precision;

    if not found then
        return query select null::text, null::uuid, extract(epoch from min(d.due_at) - clock_timestamp())::double precision
        from (
            select x.due_at from daira.doorbells x where x.lane = p_lane and x.turn is null order by x.due_at limit 1
        ) d;
    end if;
end $$
"""


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script(TABLE)
    for name, body in {"ring(text, text[], uuid[], interval)": RING, "answer(text, int)": ANSWER}.items():
        script(body)
        let_the_app_call(name)


def downgrade() -> None:
    script("""
        drop function daira.ring(text, text[], uuid[], interval);
        drop function daira.answer(text, int);
        drop index daira.doorbells_turn, daira.doorbells_of_tenant, daira.doorbells_due;
        alter table daira.doorbells drop column turn;
        create index doorbells_due on daira.doorbells (lane, due_at);
    """)
