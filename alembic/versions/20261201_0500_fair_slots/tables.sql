-- recognition is true for a job that was put back because it needs OCR and no recognition slot was free. worked is the
-- time of all its attempts that ended, apart from those whose worker was lost.
alter table daira.jobs add column recognition boolean not null default false,
add column worked interval not null default '0';
create index jobs_recognition on daira.jobs (tenant_id, ring_after)
where state = 'queued' and ring_after is not null and recognition;

drop function daira.claim(text[], uuid[], text, interval, text[]);
drop function daira.end_attempts(tid[], timestamptz, text[], jsonb[], interval[], int[], int[], jsonb[]);
drop function daira.settle(text[], uuid[], int[], text[], text[], jsonb[], interval[], int[], int[], jsonb[]);
drop function daira.sweep(text[], int, text[]);
drop function daira.tenants_with_due_work(int, text[], text);
