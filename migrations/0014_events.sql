-- The log of changes, for `GET /-/v1/events`. Replicas with --events write it, in the transaction of the change. This only
-- adds: programs of the version before know nothing of it. What they change has a row in change_log and none here, by
-- which it is found, and the log then begins anew.

-- One row for each transaction. `seq` is drawn when all that the transaction changes is locked: of two transactions that
-- meet, and of two that follow one another, the later one has the greater. `entries` is a list of JSON with `count` events.
create sequence events_seq as bigint;
create table events (
    seq bigint not null default nextval('events_seq'),
    xid xid8 not null default pg_current_xact_id(),
    at timestamptz not null default clock_timestamp(),
    count integer not null,
    entries text not null
);
alter sequence events_seq owned by events.seq;
create index events_xid on events (xid);

-- The numbers of events. A batch has the events of the transactions that are visible in its snapshot and not in that of
-- the batch before, in the order of `seq`; `number` is that of its last event, and the others have the numbers before it.
-- A batch of none is where the log begins.
create table event_batches (
    number bigint primary key,
    count bigint not null,
    snapshot pg_snapshot not null,
    made_at timestamptz not null default clock_timestamp()
);

-- The number at which the log begins, and the transaction that wrote this row: another one has written it if a dump was
-- restored. Whoever gives numbers locks the row.
create table event_log (
    one boolean primary key default true check (one),
    begun bigint not null,
    xid xid8 not null
);
insert into event_log (begun, xid) values (0, '0');
