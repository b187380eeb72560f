-- The rows of the history of changes are lists of entries, without indexes on their content: writing them costs a
-- claim little, and `berth history` reads them from the end.
--
-- `id` orders the changes of one object as they were made, because whoever makes a change has locked the object.
-- `entries` is a list of JSON, one object for each change (src/store/history/entry.rs). It stays on the page of its
-- row, uncompressed, unless it is long: a search reads all.
alter sequence history_id owned by none;
alter table history rename to history_entries;
alter index history_pkey rename to history_entries_pkey;
create table history (
    id bigint primary key default nextval('history_id'),
    at timestamptz not null default clock_timestamp(),
    entries text collate "C" not null
) with (toast_tuple_target = 8160);
alter sequence history_id owned by history.id;

insert into history (id, at, entries)
select id, at, jsonb_build_array(jsonb_build_object(
           'kind', kind, 'object', object, 'name', name, 'generation', generation, 'before', before, 'after', after,
           'subjects', subjects, 'request_id', request_id, 'global_request_id', global_request_id,
           'user', user_id, 'project', project))::text
from history_entries;
drop table history_entries;
drop table history_subjects;

update schema_compatibility set oldest_program = 3;
