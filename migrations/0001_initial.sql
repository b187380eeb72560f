-- The whole state of Berth.
--
-- Rows that claims change (providers, inventories) leave room on their pages and have no index on
-- what changes, so that those updates stay on the page (HOT).
--
-- Keys of providers, projects, users, consumers and consumer types have 64 bits. Creating and deleting uses
-- up keys, and so do refused requests that race with others: 32 bits can be used up within weeks.

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
    id bigint generated always as identity primary key,
    uuid uuid not null,
    name text not null,
    generation bigint not null default 0,
    parent_id bigint,
    root_id bigint not null,
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
    provider_id bigint not null references providers (id) on delete cascade,
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
    provider_id bigint not null references providers (id) on delete cascade,
    trait_id integer not null,
    primary key (provider_id, trait_id),
    constraint provider_traits_trait foreign key (trait_id) references traits (id)
);
create index provider_traits_trait_id on provider_traits (trait_id);

-- `spelling` is how clients spelled the aggregate: what is shown of it. Empty: as PostgreSQL writes a UUID. A
-- member of an aggregate is one whatever the spelling; two spellings of one aggregate are two rows.
create table provider_aggregates (
    provider_id bigint not null references providers (id) on delete cascade,
    aggregate uuid not null,
    spelling text not null default '',
    primary key (provider_id, aggregate, spelling)
);

-- Metadata of host aggregates, which flavors of the planner may demand. The aggregates themselves are those of
-- the Placement API, which knows nothing of them but their ids.
create table aggregate_metadata (
    aggregate uuid not null,
    key text not null,
    value text not null,
    primary key (aggregate, key)
);

-- Owners and kinds of consumers, as clients name them. Never deleted, so their keys may be cached.
create table projects (
    id bigint generated always as identity primary key,
    external_id text not null,
    constraint projects_external_id unique (external_id)
);
create table users (
    id bigint generated always as identity primary key,
    external_id text not null,
    constraint users_external_id unique (external_id)
);
create table consumer_types (
    id bigint generated always as identity primary key,
    name text not null,
    constraint consumer_types_name unique (name)
);

-- Claims are most of what is written, and foreign keys were a quarter of their cost: for each row a
-- look-up and a row lock, and from every claim of every replica a lock on the same project's row.
--
-- What they would promise is kept otherwise. A claim holds the locks of its consumer and providers, and
-- its transaction fails if it does not change exactly the rows it means to (src/store/claims).
-- Projects, users and types of consumers are never deleted. And nothing goes that is still held:
-- the triggers below, which cost only who deletes. `berth db audit` looks for what they rule out.

-- A consumer exists exactly while it holds something.
create table consumers (
    id bigint generated always as identity primary key,
    uuid uuid not null,
    project_id bigint not null,
    user_id bigint not null,
    consumer_type_id bigint,
    generation bigint not null default 0,
    constraint consumers_uuid unique (uuid)
) with (fillfactor = 80);
create index consumers_project_id on consumers (project_id, user_id);

create table allocations (
    consumer_id bigint not null,
    provider_id bigint not null,
    class_id integer not null,
    used bigint not null check (used > 0),
    updated_at timestamptz not null default now(),
    primary key (consumer_id, provider_id, class_id)
);
create index allocations_provider_id on allocations (provider_id, class_id);

create function refuse_inventory_in_use() returns trigger language plpgsql as $$
begin
    if exists (select from allocations
               where provider_id = old.provider_id and class_id = old.class_id) then
        raise foreign_key_violation using
            message = format('class %s of provider %s is in use', old.class_id, old.provider_id),
            constraint = 'allocations_inventory';
    end if;
    return null;
end
$$;
create trigger allocations_inventory after delete on inventories
    for each row execute function refuse_inventory_in_use();

create function refuse_consumer_that_holds() returns trigger language plpgsql as $$
begin
    if exists (select from allocations where consumer_id = old.id) then
        raise foreign_key_violation using
            message = format('consumer %s holds something', old.uuid),
            constraint = 'allocations_consumer';
    end if;
    return null;
end
$$;
create trigger allocations_consumer after delete on consumers
    for each row execute function refuse_consumer_that_holds();

-- What each committed transaction changed of what replicas keep in memory: the providers, and 0
-- when names of classes or traits changed. Replicas ask for what is visible now and was not
-- visible in their last snapshot, which is exact whatever the order of commits.
create table change_log (
    xid xid8 not null default pg_current_xact_id(),
    providers bigint[] not null
);
create index change_log_xid on change_log (xid);

-- The change log is cut off in small pieces, also above the oldest transaction that is still open. Log rows whose
-- transactions are visible in `cut` may have been removed: a replica that has not seen all of these transactions
-- reads everything again. `xid` is at least xmax of `cut`.
create table change_log_horizon (
    one boolean primary key default true check (one),
    xid xid8 not null,
    cut pg_snapshot not null default '1:1:'
);
insert into change_log_horizon (xid) values ('0');

-- How far the removal up to `cut` has got: rows visible in `removed` are gone, and so are those visible
-- in `cut` below `reached`. A table of its own, because refreshes read the horizon, and while vacuum is
-- held up they would read every version of this row as well.
create table change_log_pruning (
    one boolean primary key default true check (one),
    removed pg_snapshot not null default '1:1:',
    reached xid8 not null
);
insert into change_log_pruning (reached) values ('0');

-- Emptied by PostgreSQL in crash recovery and on promotion: a missing or another epoch tells
-- replicas that transaction numbers may have been used twice and their memory must be rebuilt.
create unlogged table epoch (
    one boolean primary key default true check (one),
    id uuid not null,
    system_identifier bigint not null
);

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

-- The planner: groups, plans with their placements, units that groups have to themselves, flavors.
--
-- Where a server is stands in the allocations of the consumer that its placement names, and nowhere
-- else.

-- `level` is null where nobody said one: it is host then. `project` made the group, which is for all projects
-- even so: its members say whose servers may be in it.
create table planner_groups (
    id uuid primary key,
    name text not null,
    kind text not null check (kind in ('affinity', 'diversity', 'exclusivity')),
    level text check (level in ('host', 'rack', 'cluster')),
    description text,
    -- Moves with every plan that changes who is in the group.
    generation bigint not null default 0,
    created_at timestamptz not null default now(),
    project text,
    constraint planner_groups_name unique (name)
);
create index planner_groups_project on planner_groups (project);

-- Projects that may use a group, in the order in which they came.
create table planner_group_members (
    group_id uuid not null references planner_groups (id) on delete cascade,
    project text not null,
    position bigint generated always as identity,
    primary key (group_id, project)
);

-- `stack_key`, like every key below, is the id as it is compared: a UUID has many spellings. Ids of stacks and of
-- instances, which clients choose, are unique within a project and not in the world: what a project plans binds no
-- other project.
--
-- `document` is what was asked for, with the sizes that flavors had then. A scheduler that plans single instances
-- does so with its own project, and the instances belong to others: such a plan, made by a caller who may change the
-- plans of all projects, is for the instance of `any_project`.
create table plans (
    id uuid primary key,
    name text not null,
    stack_id text not null,
    stack_key text not null,
    project text not null,
    user_id text not null,
    document text not null,
    generation bigint not null default 1,
    created_at timestamptz not null default now(),
    changed_at timestamptz not null default now(),
    any_project boolean not null default false,
    -- The first column serves those who see the plans of all projects.
    constraint plans_stack_key unique (stack_key, project)
);
create index plans_project on plans (project);

-- `consumer` holds the capacity of a placement: the placement itself by its own id (a hold), or the
-- instance that it was handed over to. `ticket` is the consumer that takes the hold over when it
-- arrives. `reserved` is null until somebody has reserved it. One that is `leaving` is no part of the
-- plan any more, but what it holds is the booking of a server that may still be there. `project` is that of the
-- plan, which never changes, here for the unique keys. `planned_on` is the host that the placement was planned on
-- last, by the root of its tree, so that instances that are elsewhere can be found.
create table placements (
    id uuid primary key,
    plan_id uuid not null references plans (id) on delete cascade,
    position integer not null,
    orchestration_id text not null,
    orchestration_key text not null,
    name text not null,
    resource_id text,
    resource_key text,
    reserved boolean,
    consumer uuid not null,
    ticket uuid,
    metadata text not null default '{}',
    expired_at timestamptz,
    leaving boolean not null default false,
    project text not null,
    planned_on bigint,
    constraint placements_orchestration unique (plan_id, orchestration_key),
    constraint placements_consumer unique (consumer, project),
    constraint placements_ticket unique (ticket, project)
);
create index placements_orchestration_key on placements (orchestration_key);
-- No instance is two servers. Instances that are no UUIDs are known to their plans alone.
create unique index placements_resource_key on placements (resource_key, project)
    where resource_key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' and not leaving;
create unique index placements_plan_resource on placements (plan_id, resource_key)
    where not leaving;
create index placements_resource on placements (resource_key) where resource_key is not null;
create index placements_project on placements (project);

-- A placement that names no project has that of its plan.
create function placement_of_a_project() returns trigger language plpgsql as $$
begin
    new.project := (select project from plans where id = new.plan_id);
    return new;
end
$$;
create trigger placements_of_a_project before insert on placements
    for each row when (new.project is null) execute function placement_of_a_project();

-- Stored groups that the server of a placement is in.
create table placement_groups (
    placement_id uuid not null references placements (id) on delete cascade,
    group_id uuid not null references planner_groups (id),
    primary key (placement_id, group_id)
);
create index placement_groups_group_id on placement_groups (group_id);

-- Hosts (by the root of their tree) that are in a unit of an exclusivity group. The key is what
-- keeps two groups out of one unit.
create table exclusive_units (
    root_id bigint not null references providers (id) on delete cascade,
    level text not null check (level in ('host', 'rack', 'cluster')),
    unit text not null,
    group_id uuid not null references planner_groups (id),
    primary key (root_id, level)
);
create index exclusive_units_group_id on exclusive_units (group_id);

-- An exclusive unit is kept for the instances of its group until their last allocation there is gone, also
-- if the plan is deleted or the placement gone.

-- Instances of exclusivity groups that hold their allocations by no placement of the group any more. A row
-- ends when the instance has no allocation in a unit of the group. `project` is that of the plan.
create table exclusive_tenants (
    consumer uuid not null,
    project text not null,
    group_id uuid not null references planner_groups (id),
    primary key (consumer, project, group_id)
);
create index exclusive_tenants_group_id on exclusive_tenants (group_id);

-- The consumers that are in a group, and the projects that put them there.
create view group_consumers as
    select p.consumer, p.project, g.group_id
    from placements p join placement_groups g on g.placement_id = p.id
    union all
    select consumer, project, group_id from exclusive_tenants;

create table flavors (
    name text primary key,
    flavor_id text not null,
    vcpus integer not null check (vcpus > 0),
    ram_mb integer not null check (ram_mb > 0),
    root_gb integer not null default 0 check (root_gb >= 0),
    ephemeral_gb integer not null default 0 check (ephemeral_gb >= 0),
    swap_mb integer not null default 0 check (swap_mb >= 0),
    extra_specs text not null default '{}',
    constraint flavors_flavor_id unique (flavor_id)
);
insert into flavors (name, flavor_id, vcpus, ram_mb, root_gb) values
    ('m1.tiny', '1', 1, 512, 1),
    ('m1.small', '2', 1, 2048, 20),
    ('m1.medium', '3', 2, 4096, 40),
    ('m1.large', '4', 4, 8192, 80),
    ('m1.xlarge', '5', 8, 16384, 160);

-- The history of changes, for `berth history`: who has changed what. Replicas with --history write it, in the
-- transaction of the change.

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

-- The log of changes, for `GET /-/v1/events`. Replicas with --events write it, in the transaction of the change.
-- Transactions of other replicas have a row in change_log and none here, by which they are found, and the log then
-- begins anew.

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

-- Which programs this schema serves, so that a replica of the version before may be started while a newer schema is
-- there. A migration that only adds leaves the number; one that changes or removes what earlier programs use sets it to
-- its own version.
create table schema_compatibility (
    one boolean primary key default true check (one),
    -- The last migration that the oldest program knows which may use this schema.
    oldest_program bigint not null
);
insert into schema_compatibility (oldest_program) values (1);
