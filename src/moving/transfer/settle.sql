-- What the search for odd rows and the load have in common. Reads the tables source_*, which hold the rows
-- as they are, and makes the tables found_*, which hold what Berth will store. A round of following puts before the
-- large ones of source_* temporary tables that have only the rows that matter. Names are staged with a NUL in another form;
-- `shown` is what Berth stores of them.

-- Until Train, standard classes had no rows: their keys were their positions in os-resource-classes.
create temporary table found_classes on commit drop as
    select s.id, c.name, c.id as own_id
    from source_resource_classes s join resource_classes c on c.name = s.shown
    union all
    select c.id, c.name, c.id from resource_classes c
    where c.id < 10000
      and not exists (select from source_resource_classes s join resource_classes k on k.name = s.shown
                      where k.id < 10000);
create unique index on found_classes (id);

create temporary table found_providers on commit drop as
    with recursive tree as (
        select p.id, p.id as root_id, null::bigint as parent_id
        from source_resource_providers p
        where p.parent_provider_id is null
           or not exists (select from source_resource_providers parent
                          where parent.id = p.parent_provider_id)
        union all
        select child.id, tree.root_id, tree.id
        from source_resource_providers child join tree on child.parent_provider_id = tree.id
    )
    select p.id, as_uuid(p.uuid) as uuid, coalesce(p.shown, p.uuid) as name,
           coalesce(p.generation, 0) as generation, tree.parent_id, tree.root_id, p.updated_at
    from tree join source_resource_providers p using (id);
create unique index on found_providers (id);

create temporary table unreached_providers on commit drop as
    select p.id, p.uuid from source_resource_providers p
    where not exists (select from found_providers found where found.id = p.id);

--- sorting inventories: source_inventories
create temporary table found_inventories on commit drop as
    select i.resource_provider_id as provider_id, i.resource_class_id as class_id, c.own_id as own_class_id,
           i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, i.allocation_ratio, i.updated_at
    from source_inventories i
    join found_providers p on p.id = i.resource_provider_id
    join found_classes c on c.id = i.resource_class_id
    where i.valid;
create unique index on found_inventories (provider_id, class_id);

create temporary table found_traits on commit drop as
    select distinct m.resource_provider_id as provider_id, t.id as trait_id
    from source_resource_provider_traits m
    join found_providers p on p.id = m.resource_provider_id
    join source_traits s on s.id = m.trait_id
    join traits t on t.name = s.shown;

create temporary table found_aggregates on commit drop as
    select distinct m.resource_provider_id as provider_id, as_uuid(a.uuid) as aggregate,
           case when a.uuid = as_uuid(a.uuid)::text then '' else a.uuid end as spelling
    from source_resource_provider_aggregates m
    join found_providers p on p.id = m.resource_provider_id
    join source_placement_aggregates a on a.id = m.aggregate_id
    where as_uuid(a.uuid) is not null;

--- sorting allocations: source_allocations
-- Sums may be more than 64 bits hold, which is refused.
create temporary table found_allocations on commit drop as
    select a.consumer, a.resource_provider_id as provider_id, a.resource_class_id as class_id,
           i.own_class_id, sum(a.used) as used, max(a.updated_at) as updated_at
    from source_allocations a
    join found_inventories i
      on i.provider_id = a.resource_provider_id and i.class_id = a.resource_class_id
    where a.consumer is not null and a.used > 0
    group by a.consumer, a.resource_provider_id, a.resource_class_id, i.own_class_id;
create index on found_allocations (consumer);
analyze found_allocations;

--- sorting consumers: source_consumers
-- One row for each consumer that holds something. Without a project or a user, it gets those by which the
-- reference stands for an unknown one. Of two rows of one UUID, the one changed more often counts.
create temporary table found_consumers on commit drop as
    select distinct on (a.consumer) a.consumer as uuid, c.id as source_id,
           coalesce(p.shown, '00000000-0000-0000-0000-000000000000') as project,
           coalesce(u.shown, '00000000-0000-0000-0000-000000000000') as "user",
           t.shown as type, coalesce(c.generation, 0) as generation
    from (select distinct consumer from found_allocations) a
    left join source_consumers c on c.consumer = a.consumer
    left join source_projects p on p.id = c.project_id
    left join source_users u on u.id = c.user_id
    left join source_consumer_types t on t.id = c.consumer_type_id
    order by a.consumer, c.generation desc nulls last, c.id;
create unique index on found_consumers (uuid);
analyze found_providers, found_inventories, found_consumers;

-- Those by which an unknown project or user is stood for may be new.
insert into projects (external_id) select distinct project from found_consumers on conflict (external_id) do nothing;
insert into users (external_id) select distinct "user" from found_consumers on conflict (external_id) do nothing;
