-- What the search for odd rows and the load have in common. Reads the tables source_*, which hold the rows
-- as they are, and makes the tables found_*, which hold what Berth will store.

-- A UUID in any spelling that OpenStack's clients may have used; null if it is none.
create function pg_temp.as_uuid(spelled text) returns uuid language sql immutable strict as $$
    select case when digits ~ '^[0-9a-f]{32}$' then digits::uuid end
    from (select lower(regexp_replace(regexp_replace(spelled, '^(urn:)?(uuid:)?', '', 'i'),
                                      '[{}-]', '', 'g')) as digits) as cleaned
$$;

-- Until Train, standard classes had no rows: their keys were their positions in os-resource-classes.
create temporary table found_classes on commit drop as
    select id, name, updated_at from source_resource_classes
    union all
    select c.id, c.name, null from resource_classes c
    where c.id < 10000
      and not exists (select from source_resource_classes s join resource_classes k using (name)
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
    select p.id, pg_temp.as_uuid(p.uuid) as uuid, coalesce(p.name, p.uuid) as name,
           coalesce(p.generation, 0) as generation, tree.parent_id, tree.root_id, p.updated_at
    from tree join source_resource_providers p using (id);
create unique index on found_providers (id);

create temporary table unreached_providers on commit drop as
    select p.id, p.uuid from source_resource_providers p
    where not exists (select from found_providers found where found.id = p.id);

create temporary table found_inventories on commit drop as
    select i.resource_provider_id as provider_id, i.resource_class_id as class_id, i.total, i.reserved,
           i.min_unit, i.max_unit, i.step_size, i.allocation_ratio, i.updated_at
    from source_inventories i
    join found_providers p on p.id = i.resource_provider_id
    join found_classes c on c.id = i.resource_class_id
    where i.total > 0 and i.reserved >= 0 and i.min_unit > 0 and i.max_unit > 0 and i.step_size > 0
      and i.allocation_ratio >= 0 and i.allocation_ratio < 'infinity';
create unique index on found_inventories (provider_id, class_id);

create temporary table found_aggregates on commit drop as
    select distinct m.resource_provider_id as provider_id, pg_temp.as_uuid(a.uuid) as aggregate,
           case when a.uuid = pg_temp.as_uuid(a.uuid)::text then '' else a.uuid end as spelling
    from source_resource_provider_aggregates m
    join found_providers p on p.id = m.resource_provider_id
    join source_placement_aggregates a on a.id = m.aggregate_id
    where pg_temp.as_uuid(a.uuid) is not null;

alter table source_allocations add column consumer uuid;
update source_allocations set consumer = pg_temp.as_uuid(consumer_id);
analyze source_allocations;

create temporary table found_allocations on commit drop as
    select a.consumer, a.resource_provider_id as provider_id, a.resource_class_id as class_id,
           sum(a.used)::bigint as used, max(a.updated_at) as updated_at
    from source_allocations a
    join found_inventories i
      on i.provider_id = a.resource_provider_id and i.class_id = a.resource_class_id
    where a.consumer is not null and a.used > 0
    group by a.consumer, a.resource_provider_id, a.resource_class_id;
create index on found_allocations (consumer);
analyze found_allocations;

alter table source_consumers add column consumer uuid;
update source_consumers set consumer = pg_temp.as_uuid(uuid);
create index on source_consumers (consumer);
analyze source_consumers;

-- One row for each consumer that holds something. Without a project or a user, it gets those by which the
-- reference stands for an unknown one. Of two rows of one UUID, the one changed more often counts.
create temporary table found_consumers on commit drop as
    select distinct on (a.consumer) a.consumer as uuid, c.id as source_id,
           coalesce(p.external_id, '00000000-0000-0000-0000-000000000000') as project,
           coalesce(u.external_id, '00000000-0000-0000-0000-000000000000') as "user",
           t.name as type, coalesce(c.generation, 0) as generation
    from (select distinct consumer from found_allocations) a
    left join source_consumers c on c.consumer = a.consumer
    left join source_projects p on p.id = c.project_id
    left join source_users u on u.id = c.user_id
    left join source_consumer_types t on t.id = c.consumer_type_id
    order by a.consumer, c.generation desc nulls last, c.id;
create unique index on found_consumers (uuid);
analyze found_providers, found_inventories, found_consumers;
