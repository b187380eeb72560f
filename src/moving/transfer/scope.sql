-- What a whole import may change: every provider and every consumer, of the source or of Berth. A round of following has
-- made these tables already, with those whose rows have changed.

create temporary table if not exists scope_providers on commit drop as
    select id from found_providers union select id from providers;
create temporary table if not exists scope_consumers on commit drop as
    select uuid from found_consumers union select uuid from consumers;

-- What the consumers hold in Berth as yet.
create temporary table held_allocations on commit drop as
    select s.uuid as consumer, a.consumer_id, a.provider_id, a.class_id, a.used
    from scope_consumers s
    join consumers c on c.uuid = s.uuid
    join allocations a on a.consumer_id = c.id;

-- The inventories that these providers have in Berth as yet.
create temporary table held_inventories on commit drop as
    select i.provider_id, i.class_id from scope_providers s join inventories i on i.provider_id = s.id;

-- How much more is used of each inventory than was.
create temporary table used_delta on commit drop as
    select provider_id, class_id, sum(used)::bigint as used
    from (select provider_id, own_class_id as class_id, used from found_allocations
          union all
          select provider_id, class_id, -used from held_allocations) as each
    group by provider_id, class_id
    having sum(used) <> 0;
analyze scope_providers, scope_consumers, held_allocations, held_inventories, used_delta;
