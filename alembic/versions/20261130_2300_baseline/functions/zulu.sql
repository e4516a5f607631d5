-- The moment as the API writes it: in UTC, with microseconds.
create function daira.zulu(
    p_moment timestamptz
)
returns text
language sql
stable
security invoker
as $$
    select to_char(p_moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
