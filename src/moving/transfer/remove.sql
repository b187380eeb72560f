-- Removes from Berth's tables what the source does not have, within the scope, and frees the names and UUIDs that change.
-- Changes allocations as well, because those that are gone may stand in the same row as others.

create temporary table gone_providers on commit drop as
    select p.id from providers p where not exists (select from found_providers f where f.id = p.id);
create temporary table changed_providers on commit drop as
    select f.id, f.uuid, f.name, f.generation, f.parent_id, f.root_id,
           coalesce(to_timestamp(f.updated_at), p.updated_at) as updated_at,
           (p.uuid, p.name) is distinct from (f.uuid, f.name) as is_renamed
    from found_providers f join providers p using (id)
    where (p.uuid, p.name, p.generation, p.parent_id, p.root_id)
              is distinct from (f.uuid, f.name, f.generation, f.parent_id, f.root_id)
       or p.updated_at <> to_timestamp(f.updated_at);
insert into touched select id from gone_providers union all select id from changed_providers;

-- Two providers may have exchanged their names, and a new one may have the UUID of one that is gone.
update providers set uuid = gen_random_uuid(), name = 'being replaced: ' || gen_random_uuid()
    where id in (select id from gone_providers
                 union all select id from changed_providers where is_renamed);

delete from allocation_sets a using held_allocations h
    where a.consumer_id = h.consumer_id and a.provider_id = h.provider_id
      and not exists (select from found_allocations f
                      where f.consumer = h.consumer and f.provider_id = h.provider_id);
update allocation_sets a
    set class_ids = f.class_ids, used = f.used, updated_at = coalesce(to_timestamp(f.updated_at), a.updated_at)
    from (select h.consumer_id, f.provider_id, array_agg(f.own_class_id order by f.own_class_id) as class_ids,
                 array_agg(f.used::bigint order by f.own_class_id) as used, max(f.updated_at) as updated_at
          from found_allocations f
          join (select distinct consumer, consumer_id from held_allocations) h on h.consumer = f.consumer
          group by h.consumer_id, f.provider_id) f
    where a.consumer_id = f.consumer_id and a.provider_id = f.provider_id
      and ((a.class_ids, a.used) is distinct from (f.class_ids, f.used)
           or a.updated_at <> to_timestamp(f.updated_at));

with removed as (
    delete from inventories i using scope_providers s
    where i.provider_id = s.id
      and not exists (select from found_inventories f
                      where f.provider_id = i.provider_id and f.own_class_id = i.class_id)
    returning i.provider_id
)
insert into touched select provider_id from removed;

delete from consumers c using scope_consumers s
    where c.uuid = s.uuid and not exists (select from found_consumers f where f.uuid = c.uuid);

with removed as (
    delete from provider_traits t using scope_providers s
    where t.provider_id = s.id
      and not exists (select from found_traits f
                      where f.provider_id = t.provider_id and f.trait_id = t.trait_id)
    returning t.provider_id
)
insert into touched select provider_id from removed;

with removed as (
    delete from provider_aggregates a using scope_providers s
    where a.provider_id = s.id
      and not exists (select from found_aggregates f
                      where f.provider_id = a.provider_id and f.aggregate = a.aggregate
                        and f.spelling = a.spelling)
    returning a.provider_id
)
insert into touched select provider_id from removed;
