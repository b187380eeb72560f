-- The replicas that run, for `berth members`. Each writes its row every few seconds.
create table replicas (
    id uuid primary key,
    name text not null,
    address text not null,
    version text not null,
    started_at timestamptz not null default clock_timestamp(),
    seen_at timestamptz not null default clock_timestamp(),
    -- What `/readyz` says.
    readiness text not null,
    -- Time of a read that had everything acknowledged before it.
    refresh_ms integer not null,
    -- Of the pool to the database.
    connections integer not null,
    refuses_writes boolean not null,
    -- Whether the replica is to be not ready until it is restarted.
    is_drained boolean not null default false
);

-- At most one row: all replicas refuse writes.
create table maintenance (
    one boolean primary key default true check (one),
    reason text not null,
    since timestamptz not null default clock_timestamp()
);
