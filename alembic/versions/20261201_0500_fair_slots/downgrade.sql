-- Removes what this migration made; the functions of the one before follow.
drop function daira.claim(text[], uuid[], text, interval, text[], int);
drop function daira.end_attempts(tid[], timestamptz, text[], jsonb[], interval[], int[], int[], jsonb[], boolean[]);
drop function daira.settle(
    text[], uuid[], int[], text[], text[], jsonb[], interval[], int[], int[], jsonb[], boolean[]
);
drop function daira.sweep(text[], int, text[], boolean);
drop function daira.tenants_with_due_work(int, text[], text, boolean);
drop index daira.jobs_recognition;
revoke select (max_running) on daira.tenants from daira_scout;
alter table daira.jobs drop column recognition, drop column worked;
