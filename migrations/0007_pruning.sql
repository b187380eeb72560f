-- The change log is cut off in small pieces, also above the oldest transaction that is still open.

-- Log rows whose transactions are visible in `cut` may have been removed: a replica that has not seen
-- all of these transactions reads everything again. Programs of the version before know `xid` alone,
-- and cut the log off below it themselves; so it is at least xmax of `cut`, and lies above it only if
-- such a program has moved it.
alter table change_log_horizon add column cut pg_snapshot not null default '1:1:';

-- How far the removal up to `cut` has got: rows visible in `removed` are gone, and so are those visible
-- in `cut` below `reached`. A table of its own, because refreshes read the horizon, and while vacuum is
-- held up they would read every version of this row as well.
create table change_log_pruning (
    one boolean primary key default true check (one),
    removed pg_snapshot not null default '1:1:',
    reached xid8 not null
);
insert into change_log_pruning (reached) select xid from change_log_horizon;

-- What is another after the database was replaced under running replicas; no row after a crash.
-- A physical restore begins with a start of the server; a logical one writes the epoch's row anew, and
-- builds the primary key of each table after the rows of that table.
create view database_identity as
    select concat_ws(' ', epoch.id, epoch.xmin, extract(epoch from pg_postmaster_start_time()),
                     to_regclass('resource_classes_pkey')::oid, to_regclass('traits_pkey')::oid,
                     to_regclass('providers_pkey')::oid, to_regclass('inventories_pkey')::oid,
                     to_regclass('provider_traits_pkey')::oid,
                     to_regclass('provider_aggregates_pkey')::oid) as identity
    from epoch;
