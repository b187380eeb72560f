-- Adds to Berth's tables what they do not have yet. Each part begins with what the progress bar shows.
--
-- The key of each table finds what is there already. A search in the table itself (`not exists`) would be planned by the
-- size that the table has before its rows come, and read all of them again for each row.

--- writing providers: found_providers

with added as (
    insert into providers (id, uuid, name, generation, parent_id, root_id, updated_at)
        overriding system value
    select id, uuid, name, generation, parent_id, root_id, coalesce(to_timestamp(updated_at), now())
    from found_providers
    order by id
    on conflict (id) do nothing
    returning id
)
insert into touched select id from added;
-- The next provider that a client makes gets a key of its own.
select setval('providers_id_seq', highest)
    from (select max(id) as highest from providers) as it
    where highest >= (select last_value from providers_id_seq);

--- writing traits: found_traits
with added as (
    insert into provider_traits (provider_id, trait_id)
    select provider_id, trait_id from found_traits
    on conflict (provider_id, trait_id) do nothing
    returning provider_id
)
insert into touched select provider_id from added;

--- writing aggregates: found_aggregates
with added as (
    insert into provider_aggregates (provider_id, aggregate, spelling)
    select provider_id, aggregate, spelling from found_aggregates
    on conflict (provider_id, aggregate, spelling) do nothing
    returning provider_id
)
insert into touched select provider_id from added;

--- writing inventories: found_inventories
with added as (
    insert into inventories (provider_id, class_id, total, reserved, min_unit, max_unit, step_size,
                             allocation_ratio, used, updated_at)
    select f.provider_id, f.own_class_id, f.total, f.reserved, f.min_unit, f.max_unit, f.step_size,
           f.allocation_ratio, coalesce(d.used, 0), coalesce(to_timestamp(f.updated_at), now())
    from found_inventories f
    left join used_delta d on d.provider_id = f.provider_id and d.class_id = f.own_class_id
    -- What is used of an inventory that is there may have become less, which is no row that could be stored.
    left join held_inventories h on h.provider_id = f.provider_id and h.class_id = f.own_class_id
    where h.provider_id is null
    returning provider_id, class_id
), done as (
    delete from used_delta d using added a where d.provider_id = a.provider_id and d.class_id = a.class_id
)
insert into touched select provider_id from added;

--- writing consumers: found_consumers
insert into consumers (uuid, project_id, user_id, consumer_type_id, generation)
    select f.uuid, p.id, u.id, t.id, f.generation
    from found_consumers f
    join projects p on p.external_id = f.project
    join users u on u.external_id = f.user
    left join consumer_types t on t.name = f.type
    order by f.source_id nulls last, f.uuid
    on conflict (uuid) do nothing;

--- writing allocations: found_allocations
insert into allocation_sets (consumer_id, provider_id, class_ids, used, updated_at)
    select c.id, f.provider_id, array_agg(f.own_class_id order by f.own_class_id),
           array_agg(f.used::bigint order by f.own_class_id), coalesce(to_timestamp(max(f.updated_at)), now())
    from found_allocations f
    join consumers c on c.uuid = f.consumer
    where not exists (select from held_allocations h
                      where h.consumer = f.consumer and h.provider_id = f.provider_id)
    group by c.id, f.provider_id
    order by c.id, f.provider_id;
