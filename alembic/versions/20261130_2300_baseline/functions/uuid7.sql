-- A UUID of version 7 (RFC 9562): milliseconds, then random bits. PostgreSQL has its own from 18 on.
create function daira.uuid7()
returns uuid
language sql
volatile
security invoker
as $$
    select encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                    from 1 for 6),
            52, 1), 53, 1), 'hex')::uuid
$$;
