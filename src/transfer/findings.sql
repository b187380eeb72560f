-- Rows of the source that Berth stores differently, or not at all: what is odd, which row, what is done.

select 'providers without a name' as kind, format('provider %s', uuid) as "row",
       'its UUID is its name' as done
from source_resource_providers where name is null

union all
select 'providers whose UUID has another spelling', format('provider %s', s.uuid),
       format('shown as %s', p.uuid)
from source_resource_providers s join found_providers p using (id) where s.uuid <> p.uuid::text

union all
select 'providers whose root is missing or wrong',
       format('provider %s, root %s', s.uuid, coalesce(wrong.uuid, s.root_provider_id::text, 'null')),
       format('its root is %s, as its parents say', root.uuid)
from source_resource_providers s
join found_providers p using (id)
join found_providers root on root.id = p.root_id
left join source_resource_providers wrong on wrong.id = s.root_provider_id
where s.root_provider_id is distinct from p.root_id

union all
select 'providers whose parent is gone', format('provider %s, parent %s', s.uuid, s.parent_provider_id),
       'it is the root of its tree'
from source_resource_providers s join found_providers p using (id)
where s.parent_provider_id is not null and p.parent_id is null

union all
select 'names with a NUL', format('%s %s', kind, name),
       'the NUL is replaced by U+FFFD'
from (select 'provider' as kind, name from source_resource_providers
      union all select 'resource class', name from source_resource_classes
      union all select 'trait', name from source_traits
      union all select 'consumer type', name from source_consumer_types
      union all select 'project', external_id from source_projects
      union all select 'user', external_id from source_users) as named
where strpos(name, chr(65533)) > 0

union all
select 'resource classes and traits that are neither custom nor known here',
       format('%s %s', kind, name), 'kept as it is'
from unknown_names
where name not like 'CUSTOM\_%'

union all
select 'aggregates whose UUID has another spelling',
       format('aggregate %s of provider %s', f.spelling, p.uuid),
       format('shown as it is, and found also as %s', f.aggregate)
from found_aggregates f join found_providers p on p.id = f.provider_id where f.spelling <> ''

union all
select 'members of what is no aggregate',
       format('provider %s, aggregate %s', coalesce(p.uuid, m.resource_provider_id::text),
              coalesce(a.uuid, m.aggregate_id::text)),
       'left out'
from source_resource_provider_aggregates m
left join source_resource_providers p on p.id = m.resource_provider_id
left join source_placement_aggregates a on a.id = m.aggregate_id
where p.id is null or a.id is null or as_uuid(a.uuid) is null

union all
select 'aggregates without members', format('aggregate %s', a.uuid),
       'left out: nothing shows it'
from source_placement_aggregates a
where not exists (select from source_resource_provider_aggregates m where m.aggregate_id = a.id)

union all
select 'traits of what is gone',
       format('provider %s, trait %s', coalesce(p.uuid, m.resource_provider_id::text),
              coalesce(t.name, m.trait_id::text)),
       'left out'
from source_resource_provider_traits m
left join source_resource_providers p on p.id = m.resource_provider_id
left join source_traits t on t.id = m.trait_id
where p.id is null or t.id is null

union all
select 'inventories that cannot be',
       format('provider %s, %s: total %s, reserved %s, min_unit %s, max_unit %s, step_size %s, '
              'allocation_ratio %s', coalesce(p.uuid, i.resource_provider_id::text || ' (gone)'),
              coalesce(c.name, i.resource_class_id::text || ' (gone)'), i.total, i.reserved, i.min_unit,
              i.max_unit, i.step_size, i.allocation_ratio),
       'left out'
from source_inventories i
left join source_resource_providers p on p.id = i.resource_provider_id
left join found_classes c on c.id = i.resource_class_id
where not exists (select from found_inventories f
                  where f.provider_id = i.resource_provider_id and f.class_id = i.resource_class_id)

union all
select 'inventories with more allocated than there is',
       format('provider %s, %s: %s allocated, capacity %s', p.uuid, c.name, used.used,
              (i.total - i.reserved) * i.allocation_ratio),
       'kept as it is'
from found_inventories i
join (select provider_id, class_id, sum(used) as used from found_allocations group by 1, 2) as used
  using (provider_id, class_id)
join found_providers p on p.id = i.provider_id
join found_classes c on c.id = i.class_id
where used.used > (i.total - i.reserved) * i.allocation_ratio

union all
select 'allocations that cannot be',
       format('consumer %s: %s of %s on provider %s', a.consumer_id, a.used,
              coalesce(c.name, a.resource_class_id::text || ' (gone)'),
              coalesce(p.uuid, a.resource_provider_id::text || ' (gone)')),
       case when a.consumer is null then 'left out: the consumer is no UUID'
            when p.id is null then 'left out: there is no such provider'
            when c.id is null then 'left out: there is no such resource class'
            when i.provider_id is null then 'left out: the provider has no inventory of it'
            else 'left out: it takes nothing' end
from source_allocations a
left join source_resource_providers p on p.id = a.resource_provider_id
left join found_classes c on c.id = a.resource_class_id
left join found_inventories i
       on i.provider_id = a.resource_provider_id and i.class_id = a.resource_class_id
where a.consumer is null or i.provider_id is null or a.used is null or a.used <= 0

union all
select 'allocations that stand several times',
       format('consumer %s: %s rows of %s on provider %s', a.consumer, count(*), c.name, p.uuid),
       format('one allocation of %s', sum(a.used))
from source_allocations a
join found_providers p on p.id = a.resource_provider_id
join found_classes c on c.id = a.resource_class_id
join found_inventories i on i.provider_id = p.id and i.class_id = c.id
where a.consumer is not null and a.used > 0
group by a.consumer, c.name, p.uuid
having count(*) > 1

union all
select 'consumers without a row', format('consumer %s', f.uuid),
       format('has project and user %s, and generation 0', f.project)
from found_consumers f where f.source_id is null

union all
select 'consumers whose project, user or type is gone', format('consumer %s', c.uuid),
       format('has project %s, user %s and type %s', f.project, f.user, coalesce(f.type, 'none'))
from found_consumers f
join source_consumers c on c.id = f.source_id
where not exists (select from source_projects p where p.id = c.project_id)
   or not exists (select from source_users u where u.id = c.user_id)
   or (c.consumer_type_id is not null
       and not exists (select from source_consumer_types t where t.id = c.consumer_type_id))

union all
select 'consumers whose UUID has another spelling', format('consumer %s', c.uuid),
       format('shown as %s', c.consumer)
from source_consumers c
join found_consumers f on f.source_id = c.id where c.uuid <> c.consumer::text

union all
select 'consumers that stand twice', format('consumer %s, generation %s', c.uuid, c.generation),
       format('one consumer, with generation %s', f.generation)
from source_consumers c join found_consumers f on f.uuid = c.consumer and f.source_id <> c.id

union all
select 'consumers that hold nothing', format('consumer %s', c.uuid), 'left out: nothing shows it'
from source_consumers c
where not exists (select from found_consumers f where f.uuid = c.consumer)

order by 1, 2
