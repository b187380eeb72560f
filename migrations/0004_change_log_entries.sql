-- The log has what claims changed, so that replicas apply it without reading rows.
--
-- `id` orders the changes of one object as they were made, because whoever makes a change has locked the object. `at`
-- is the time in the columns `updated_at` of the rows that the transaction wrote. `entries` is a list of JSON
-- (src/store/log_entry.rs). It stays on the page of its row, uncompressed, unless it is long.
alter table change_log
    add column id bigint generated always as identity,
    add column at timestamptz not null default now(),
    add column entries text collate "C",
    set (toast_tuple_target = 8160);

update schema_compatibility set oldest_program = 4;
