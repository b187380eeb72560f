-- The planner: groups, plans with their placements, units that groups have to themselves, flavors.
--
-- Where a server is stands in the allocations of the consumer that its placement names, and nowhere
-- else.

-- `level` is null where nobody said one: it is host then.
create table planner_groups (
    id uuid primary key,
    name text not null,
    kind text not null check (kind in ('affinity', 'diversity', 'exclusivity')),
    level text check (level in ('host', 'rack', 'cluster')),
    description text,
    -- Moves with every plan that changes who is in the group.
    generation bigint not null default 0,
    created_at timestamptz not null default now(),
    constraint planner_groups_name unique (name)
);

-- Projects that may use a group, in the order in which they came.
create table planner_group_members (
    group_id uuid not null references planner_groups (id) on delete cascade,
    project text not null,
    position bigint generated always as identity,
    primary key (group_id, project)
);

-- `stack_key`, like every key below, is the id as it is compared: a UUID has many spellings.
-- `document` is what was asked for, with the sizes that flavors had then.
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
    constraint plans_stack_key unique (stack_key)
);
create index plans_project on plans (project);

-- `consumer` holds the capacity of a placement: the placement itself by its own id (a hold), or the
-- instance that it was handed over to. `ticket` is the consumer that takes the hold over when it
-- arrives. `reserved` is null until somebody has reserved it. One that is `leaving` is no part of the
-- plan any more, but what it holds is the booking of a server that may still be there.
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
    constraint placements_orchestration unique (plan_id, orchestration_key),
    constraint placements_consumer unique (consumer),
    constraint placements_ticket unique (ticket)
);
create index placements_orchestration_key on placements (orchestration_key);
-- No instance is two servers. Instances that are no UUIDs are known to their plans alone.
create unique index placements_resource_key on placements (resource_key)
    where resource_key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' and not leaving;
create unique index placements_plan_resource on placements (plan_id, resource_key)
    where not leaving;
create index placements_resource on placements (resource_key) where resource_key is not null;

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
    root_id integer not null references providers (id) on delete cascade,
    level text not null check (level in ('host', 'rack', 'cluster')),
    unit text not null,
    group_id uuid not null references planner_groups (id),
    primary key (root_id, level)
);
create index exclusive_units_group_id on exclusive_units (group_id);

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
