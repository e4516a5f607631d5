-- The rights of the functions that were put back.
revoke all on function
daira.claim(text[], uuid[], text, interval, text[]),
daira.end_attempts(tid[], timestamptz, text[], jsonb[], interval[], int[], int[], jsonb[]),
daira.settle(text[], uuid[], int[], text[], text[], jsonb[], interval[], int[], int[], jsonb[]),
daira.sweep(text[], int, text[]),
daira.tenants_with_due_work(int, text[], text) from public;
grant execute on function
daira.claim(text[], uuid[], text, interval, text[]),
daira.end_attempts(tid[], timestamptz, text[], jsonb[], interval[], int[], int[], jsonb[]),
daira.settle(text[], uuid[], int[], text[], text[], jsonb[], interval[], int[], int[], jsonb[]),
daira.sweep(text[], int, text[]),
daira.tenants_with_due_work(int, text[], text) to daira_app;

-- A role needs CREATE on the schema at the moment it becomes the owner of a function, and never again.
grant create on schema daira to daira_scout;
alter function daira.tenants_with_due_work(int, text[], text) owner to daira_scout;
revoke create on schema daira from daira_scout;
