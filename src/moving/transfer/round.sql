-- Finds out what of Berth's tables a round has to look at. Reads the rows that have gone from the source and those that
-- have come, gone_* and come_*, and the staging, which has the new state already. A row that has changed is in both.

create temporary table dirty_providers on commit drop as
    select id from (
        select id from gone_resource_providers
        union select id from come_resource_providers
        union select resource_provider_id from gone_inventories
        union select resource_provider_id from come_inventories
        union select resource_provider_id from gone_resource_provider_traits
        union select resource_provider_id from come_resource_provider_traits
        union select resource_provider_id from gone_resource_provider_aggregates
        union select resource_provider_id from come_resource_provider_aggregates
        union select resource_provider_id from source_resource_provider_traits
              where trait_id in (select id from gone_traits union all select id from come_traits)
        union select resource_provider_id from source_resource_provider_aggregates
              where aggregate_id in (select id from gone_placement_aggregates
                                     union all select id from come_placement_aggregates)
        union select resource_provider_id from source_inventories
              where resource_class_id in (select id from gone_resource_classes
                                          union all select id from come_resource_classes)
    ) as dirty where id is not null;

-- Inventories that begin or cease to exist: only then can allocations from them be stored, or no longer.
create temporary table changed_inventories on commit drop as
    select resource_provider_id, resource_class_id
    from gone_inventories g full join come_inventories c using (resource_provider_id, resource_class_id)
    where g.id is null or c.id is null or g.valid <> c.valid
    union
    select resource_provider_id, resource_class_id from source_inventories
    where resource_provider_id in (select id from gone_resource_providers g full join come_resource_providers c using (id)
                                   where g.uuid is null or c.uuid is null)
    union
    select resource_provider_id, resource_class_id from source_inventories
    where resource_class_id in (select id from gone_resource_classes
                                union all select id from come_resource_classes);

create temporary table scope_consumers on commit drop as
    select uuid from (
        select consumer as uuid from gone_allocations
        union select consumer from come_allocations
        union select consumer from gone_consumers
        union select consumer from come_consumers
        union select consumer from source_consumers
              where project_id in (select id from gone_projects union all select id from come_projects)
        union select consumer from source_consumers
              where user_id in (select id from gone_users union all select id from come_users)
        union select consumer from source_consumers
              where consumer_type_id in (select id from gone_consumer_types
                                         union all select id from come_consumer_types)
        union select a.consumer from source_allocations a
              join changed_inventories i using (resource_provider_id, resource_class_id)
    ) as dirty where uuid is not null;
create unique index on scope_consumers (uuid);
analyze scope_consumers;

-- With the providers from which these consumers have allocations, so that their inventories are known below.
create temporary table scope_providers on commit drop as
    select id from dirty_providers
    union
    select a.resource_provider_id from source_allocations a
    join scope_consumers s on s.uuid = a.consumer
    where a.resource_provider_id is not null;
create unique index on scope_providers (id);
analyze scope_providers;

-- From here on, the names of the large tables mean the rows of these providers and consumers.
create temporary table source_inventories on commit drop as
    select i.* from berth_import.source_inventories i join scope_providers s on s.id = i.resource_provider_id;
create temporary table source_resource_provider_traits on commit drop as
    select m.* from berth_import.source_resource_provider_traits m
    join scope_providers s on s.id = m.resource_provider_id;
create temporary table source_resource_provider_aggregates on commit drop as
    select m.* from berth_import.source_resource_provider_aggregates m
    join scope_providers s on s.id = m.resource_provider_id;
create temporary table source_consumers on commit drop as
    select c.* from berth_import.source_consumers c join scope_consumers s on s.uuid = c.consumer;
create temporary table source_allocations on commit drop as
    select a.* from berth_import.source_allocations a join scope_consumers s on s.uuid = a.consumer;
