-- The API key with this secret, and its tenant, in one round trip: the clamp is set first, and the look-up runs under
-- it. Volatile, so that each statement has a snapshot, and a clamp, of its own.
create function daira.presented_key(
    p_tenant text,
    p_secret_sha256 bytea
)
returns table (
    id uuid,
    name text,
    scopes text[],
    created_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    tenant_state text,
    tenant_created_at timestamptz,
    max_running int,
    max_queued int,
    max_upload_bytes bigint,
    requests_per_minute int
)
language plpgsql
volatile
security invoker
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    perform set_config('app.tenant_id', p_tenant, true);
    return query
    select k.id, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at, t.state, t.created_at,
           t.max_running, t.max_queued, t.max_upload_bytes, t.requests_per_minute
    from daira.api_keys k join daira.tenants t on t.tenant_id = k.tenant_id
    where k.tenant_id = p_tenant and k.secret_sha256 = p_secret_sha256;
end;
$$;
