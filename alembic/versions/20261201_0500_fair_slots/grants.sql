grant update (recognition, worked) on daira.jobs to daira_app;
grant select (recognition) on daira.jobs to daira_scout;
grant select (max_running) on daira.tenants to daira_scout;

revoke all on function
daira.claim(text[], uuid[], text, interval, text[], int),
daira.end_attempts(tid[], timestamptz, text[], jsonb[], interval[], int[], int[], jsonb[], boolean[]),
daira.settle(text[], uuid[], int[], text[], text[], jsonb[], interval[], int[], int[], jsonb[], boolean[]),
daira.sweep(text[], int, text[], boolean),
daira.tenants_with_due_work(int, text[], text, boolean) from public;
grant execute on function
daira.claim(text[], uuid[], text, interval, text[], int),
daira.end_attempts(tid[], timestamptz, text[], jsonb[], interval[], int[], int[], jsonb[], boolean[]),
daira.settle(text[], uuid[], int[], text[], text[], jsonb[], interval[], int[], int[], jsonb[], boolean[]),
daira.sweep(text[], int, text[], boolean),
daira.tenants_with_due_work(int, text[], text, boolean) to daira_app;

-- A role needs CREATE on the schema at the moment it becomes the owner of a function, and never again.
grant create on schema daira to daira_scout;
alter function daira.tenants_with_due_work(int, text[], text, boolean) owner to daira_scout;
revoke create on schema daira from daira_scout;
