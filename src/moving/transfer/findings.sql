-- Rows of the source that Berth stores differently, or not at all: what is odd, which row, what is done,
-- and, where differences between the services follow from it, what it is about.

select *, null::text as about from (

select 'providers without a name' as kind, format('provider %s', uuid) as "row",
       'its UUID is its name' as done
from source_resource_providers where name is null

union all
select 'providers without a generation', format('provider %s', uuid), 'its generation is 0'
from source_resource_providers where generation is null

union all
-- The name of the kind stands in findings.rs as well.
select 'times of change that are missing or cannot be read', without_time."row", 'the time of the import is used instead'
from (select format('provider %s', p.uuid) as "row" from found_providers p where p.updated_at is null
      union all
      select format('inventory of %s of provider %s', c.name, p.uuid)
      from found_inventories i join found_providers p on p.id = i.provider_id join found_classes c on c.id = i.class_id
      where i.updated_at is null
      union all
      -- There may be as many as allocations, so they are counted.
      select format('%s of the allocations on provider %s', count(*), p.uuid)
      from found_allocations a join found_providers p on p.id = a.provider_id
      where a.updated_at is null
      group by p.uuid
      union all
      select format('%s %s', kind, name) from unknown_names where updated_at is null) as without_time

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
-- How a NUL is staged.
where strpos(name, chr(64976) || '0') > 0

union all
select 'projects, users and types of consumers that are one once U+FFFD stands for a NUL',
       format('%s %s, row %s', kind, shown, id), format('one with row %s: what both have is counted together', first)
from (select kind, shown, id, min(id) over (partition by kind, shown) as first
      from (select 'project' as kind, shown, id from source_projects
            union all select 'user', shown, id from source_users
            union all select 'consumer type', shown, id from source_consumer_types) as named) as numbered
where id <> first

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
select 'consumers without a generation', format('consumer %s', f.uuid), 'its generation is 0'
from found_consumers f join source_consumers c on c.id = f.source_id where c.generation is null

union all
select 'consumers that hold nothing', format('consumer %s', c.uuid), 'left out: nothing shows it'
from source_consumers c
where not exists (select from found_consumers f where f.uuid = c.consumer)

) as without_differences

union all
select 'inventories that cannot be',
       format('provider %s, %s: total %s, reserved %s, min_unit %s, max_unit %s, step_size %s, '
              'allocation_ratio %s', coalesce(p.uuid, i.resource_provider_id::text || ' (gone)'),
              coalesce(c.name, i.resource_class_id::text || ' (gone)'), i.total, i.reserved, i.min_unit,
              i.max_unit, i.step_size, i.allocation_ratio),
       'left out', jsonb_build_object('provider', p.uuid, 'classes', jsonb_build_array(c.name))::text
from source_inventories i
left join source_resource_providers p on p.id = i.resource_provider_id
left join found_classes c on c.id = i.resource_class_id
where not exists (select from found_inventories f
                  where f.provider_id = i.resource_provider_id and f.class_id = i.resource_class_id)

union all
select 'allocations that cannot be',
       format('consumer %s: %s of %s on provider %s', a.consumer_id, a.used,
              coalesce(c.name, a.resource_class_id::text || ' (gone)'),
              coalesce(p.uuid, a.resource_provider_id::text || ' (gone)')),
       case when a.consumer is null then 'left out: the consumer is no UUID'
            when p.id is null then 'left out: there is no such provider'
            when c.id is null then 'left out: there is no such resource class'
            when i.provider_id is null and own.provider_id is null
                then 'left out: the provider has no inventory of it'
            when i.provider_id is null
                then 'left out: so is the inventory, see "inventories that cannot be"'
            else 'left out: it takes nothing' end,
       -- The old service counts it in the usages of a provider that has an inventory.
       jsonb_build_object('consumer', a.consumer_id, 'provider', p.uuid, 'classes', jsonb_build_array(c.name),
                          'project', coalesce(owner.external_id, '00000000-0000-0000-0000-000000000000'), 'left_out',
                          case when i.provider_id is not null then jsonb_build_object(c.name, a.used) end)::text
from source_allocations a
left join source_resource_providers p on p.id = a.resource_provider_id
left join found_classes c on c.id = a.resource_class_id
left join found_inventories i
       on i.provider_id = a.resource_provider_id and i.class_id = a.resource_class_id
left join (select distinct resource_provider_id as provider_id, resource_class_id as class_id
           from source_inventories) as own
       on own.provider_id = a.resource_provider_id and own.class_id = a.resource_class_id
left join source_consumers of on of.uuid = a.consumer_id
left join source_projects owner on owner.id = of.project_id
where a.consumer is null or i.provider_id is null or a.used is null or a.used <= 0

union all
select 'allocations that stand several times',
       format('consumer %s: %s rows of %s on provider %s', a.consumer, count(*), c.name, p.uuid),
       format('one allocation of %s', sum(a.used)),
       jsonb_build_object('consumer', a.consumer)::text
from source_allocations a
join found_providers p on p.id = a.resource_provider_id
join found_classes c on c.id = a.resource_class_id
join found_inventories i on i.provider_id = p.id and i.class_id = c.id
where a.consumer is not null and a.used > 0
group by a.consumer, c.name, p.uuid
having count(*) > 1

union all
select 'consumers without a row', format('consumer %s', f.uuid),
       format('has project and user %s, and generation 0', f.project),
       jsonb_build_object('consumer', f.uuid, 'project', f.project, 'classes',
                          (select jsonb_agg(distinct k.name)
                           from found_allocations held join found_classes k on k.id = held.class_id
                           where held.consumer = f.uuid))::text
from found_consumers f where f.source_id is null

union all
select 'consumers whose project, user or type is gone', format('consumer %s', c.uuid),
       format('has project %s, user %s and type %s', f.project, f.user, coalesce(f.type, 'none')),
       jsonb_build_object('consumer', f.uuid, 'project', f.project, 'classes',
                          (select jsonb_agg(distinct k.name)
                           from found_allocations held join found_classes k on k.id = held.class_id
                           where held.consumer = f.uuid))::text
from found_consumers f
join source_consumers c on c.id = f.source_id
where not exists (select from source_projects p where p.id = c.project_id)
   or not exists (select from source_users u where u.id = c.user_id)
   or (c.consumer_type_id is not null
       and not exists (select from source_consumer_types t where t.id = c.consumer_type_id))

union all
select 'consumers whose UUID has another spelling', format('consumer %s', c.uuid),
       format('shown as %s', c.consumer), jsonb_build_object('consumer', c.consumer)::text
from source_consumers c
join found_consumers f on f.source_id = c.id where c.uuid <> c.consumer::text

union all
select 'consumers that stand twice',
       format('consumer %s, generation %s, project %s, user %s, type %s', c.uuid, c.generation,
              coalesce(p.external_id, c.project_id::text || ' (gone)'), coalesce(u.external_id, c.user_id::text || ' (gone)'),
              coalesce(t.name, c.consumer_type_id::text || ' (gone)', 'none')),
       format('one consumer, with generation %s, project %s, user %s and type %s', f.generation, f.project, f.user,
              coalesce(f.type, 'none')),
       jsonb_build_object('consumer', f.uuid, 'project', p.external_id, 'classes',
                          (select jsonb_agg(distinct k.name)
                           from found_allocations held join found_classes k on k.id = held.class_id
                           where held.consumer = f.uuid))::text
from source_consumers c
join found_consumers f on f.uuid = c.consumer and f.source_id <> c.id
left join source_projects p on p.id = c.project_id
left join source_users u on u.id = c.user_id
left join source_consumer_types t on t.id = c.consumer_type_id

order by 1, 2
