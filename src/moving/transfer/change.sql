-- Changes what Berth's tables had already.

update providers p
    set uuid = f.uuid, name = f.name, generation = f.generation, parent_id = f.parent_id, root_id = f.root_id,
        updated_at = f.updated_at
    from changed_providers f where f.id = p.id;

with changed as (
    update inventories i
        set total = f.total, reserved = f.reserved, min_unit = f.min_unit, max_unit = f.max_unit,
            step_size = f.step_size, allocation_ratio = f.allocation_ratio,
            updated_at = coalesce(to_timestamp(f.updated_at), i.updated_at)
    from found_inventories f
    where f.provider_id = i.provider_id and f.own_class_id = i.class_id
      and ((i.total, i.reserved, i.min_unit, i.max_unit, i.step_size, i.allocation_ratio)
               is distinct from (f.total, f.reserved, f.min_unit, f.max_unit, f.step_size, f.allocation_ratio)
           or i.updated_at <> to_timestamp(f.updated_at))
    returning i.provider_id
)
insert into touched select provider_id from changed;

with changed as (
    update inventories i set used = i.used + d.used
    from used_delta d where d.provider_id = i.provider_id and d.class_id = i.class_id
    returning i.provider_id
)
insert into touched select provider_id from changed;

update consumers c
    set project_id = p.id, user_id = u.id, consumer_type_id = t.id, generation = f.generation
    from found_consumers f
    join projects p on p.external_id = f.project
    join users u on u.external_id = f.user
    left join consumer_types t on t.name = f.type
    where c.uuid = f.uuid
      and (c.project_id, c.user_id, c.consumer_type_id, c.generation)
              is distinct from (p.id, u.id, t.id, f.generation);

delete from providers where id in (select id from gone_providers);

-- Of the standard names, the source may have fewer. Those have keys below 10000.
with removed as (
    delete from resource_classes c
    where c.id >= 10000 and not exists (select from source_resource_classes s where s.shown = c.name)
    returning id
)
insert into touched select 0 from removed;
with removed as (
    delete from traits t
    where t.id >= 10000 and not exists (select from source_traits s where s.shown = t.name)
    returning id
)
insert into touched select 0 from removed;
with changed as (
    update resource_classes c set updated_at = to_timestamp(s.updated_at)
    from source_resource_classes s
    where s.shown = c.name and c.id >= 10000 and c.updated_at <> to_timestamp(s.updated_at)
    returning c.id
)
insert into touched select 0 from changed;
with changed as (
    update traits t set updated_at = to_timestamp(s.updated_at)
    from source_traits s
    where s.shown = t.name and t.id >= 10000 and t.updated_at <> to_timestamp(s.updated_at)
    returning t.id
)
insert into touched select 0 from changed;
