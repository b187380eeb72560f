-- The whole state of Berth.
--
-- Rows that claims change (providers, inventories) leave room on their pages and have no index on
-- what changes, so that those updates stay on the page (HOT).

-- Names. Keys below 10000 are standard classes and traits, in the order of os-resource-classes and
-- os-traits; the program adds them when it migrates (see src/store/standard).
create table resource_classes (
    id integer primary key,
    name text not null,
    updated_at timestamptz not null default now(),
    constraint resource_classes_name unique (name)
);
create sequence resource_classes_id as integer start 10000 owned by resource_classes.id;

create table traits (
    id integer primary key,
    name text not null,
    updated_at timestamptz not null default now(),
    constraint traits_name unique (name)
);
create sequence traits_id as integer start 10000 owned by traits.id;

create table providers (
    id integer generated always as identity primary key,
    uuid uuid not null,
    name text not null,
    generation bigint not null default 0,
    parent_id integer,
    root_id integer not null,
    updated_at timestamptz not null default now(),
    constraint providers_uuid unique (uuid),
    constraint providers_name unique (name),
    constraint providers_parent foreign key (parent_id) references providers (id),
    constraint providers_root foreign key (root_id) references providers (id)
) with (fillfactor = 70);
create index providers_parent_id on providers (parent_id) where parent_id is not null;
create index providers_root_id on providers (root_id);

-- `used` is the sum of the allocations of this class on this provider, kept in the same
-- transaction, so that a capacity check reads one row however many consumers there are.
create table inventories (
    provider_id integer not null references providers (id) on delete cascade,
    class_id integer not null,
    total integer not null check (total > 0),
    reserved integer not null check (reserved >= 0),
    min_unit integer not null check (min_unit > 0),
    max_unit integer not null check (max_unit > 0),
    step_size integer not null check (step_size > 0),
    allocation_ratio double precision not null,
    used bigint not null default 0 check (used >= 0),
    updated_at timestamptz not null default now(),
    primary key (provider_id, class_id),
    constraint inventories_class foreign key (class_id) references resource_classes (id)
) with (fillfactor = 70);
create index inventories_class_id on inventories (class_id);

create table provider_traits (
    provider_id integer not null references providers (id) on delete cascade,
    trait_id integer not null,
    primary key (provider_id, trait_id),
    constraint provider_traits_trait foreign key (trait_id) references traits (id)
);
create index provider_traits_trait_id on provider_traits (trait_id);

create table provider_aggregates (
    provider_id integer not null references providers (id) on delete cascade,
    aggregate uuid not null,
    primary key (provider_id, aggregate)
);

-- Owners and kinds of consumers, as clients name them. Never deleted, so their keys may be cached.
create table projects (
    id integer generated always as identity primary key,
    external_id text not null,
    constraint projects_external_id unique (external_id)
);
create table users (
    id integer generated always as identity primary key,
    external_id text not null,
    constraint users_external_id unique (external_id)
);
create table consumer_types (
    id integer generated always as identity primary key,
    name text not null,
    constraint consumer_types_name unique (name)
);

-- A consumer exists exactly while it holds something.
create table consumers (
    id bigint generated always as identity primary key,
    uuid uuid not null,
    project_id integer not null references projects (id),
    user_id integer not null references users (id),
    consumer_type_id integer references consumer_types (id),
    generation bigint not null default 0,
    constraint consumers_uuid unique (uuid)
) with (fillfactor = 80);
create index consumers_project_id on consumers (project_id, user_id);

create table allocations (
    consumer_id bigint not null references consumers (id),
    provider_id integer not null,
    class_id integer not null,
    used bigint not null check (used > 0),
    updated_at timestamptz not null default now(),
    primary key (consumer_id, provider_id, class_id),
    constraint allocations_inventory foreign key (provider_id, class_id)
        references inventories (provider_id, class_id)
);
create index allocations_provider_id on allocations (provider_id, class_id);

-- What each committed transaction changed of what replicas keep in memory: the providers, and 0
-- when names of classes or traits changed. Replicas ask for what is visible now and was not
-- visible in their last snapshot, which is exact whatever the order of commits.
create table change_log (
    xid xid8 not null default pg_current_xact_id(),
    providers integer[] not null
);
create index change_log_xid on change_log (xid);

-- Log rows below this transaction have been removed.
create table change_log_horizon (
    one boolean primary key default true check (one),
    xid xid8 not null
);
insert into change_log_horizon (xid) values ('0');

-- Emptied by PostgreSQL in crash recovery and on promotion: a missing or another epoch tells
-- replicas that transaction numbers may have been used twice and their memory must be rebuilt.
create unlogged table epoch (
    one boolean primary key default true check (one),
    id uuid not null,
    system_identifier bigint not null
);
