-- The history of changes, for `berth history`: who has changed what. Replicas with --history write it, in the
-- transaction of the change. This only adds: programs of the version before know nothing of it, and what they change is
-- not in it.

-- `id` orders the changes of one object as they were made, because whoever makes a change has locked the object.
-- `subjects`: the objects that this is about, also the providers of a consumer's allocations.
create sequence history_id as bigint;
create table history (
    id bigint primary key default nextval('history_id'),
    xid xid8 not null default pg_current_xact_id(),
    at timestamptz not null default clock_timestamp(),
    request_id text,
    global_request_id text,
    user_id text,
    project text,
    kind text not null,
    object text not null,
    -- Of providers: so that one that was deleted is found by its name.
    name text,
    generation bigint,
    before jsonb,
    after jsonb,
    subjects uuid[] not null
);
alter sequence history_id owned by history.id;
create index history_name on history (name) where name is not null;

-- Which entries are about an object.
create table history_subjects (
    subject uuid not null,
    entry bigint not null,
    primary key (subject, entry)
);

-- From when to when all changes were recorded, and nothing has been removed since.
create table history_periods (
    id bigint generated always as identity primary key,
    began timestamptz not null default clock_timestamp(),
    ended timestamptz
);
create unique index history_periods_open on history_periods ((true)) where ended is null;
