-- Fills Berth's empty tables from the tables found_* and source_*.

insert into resource_classes (id, name, updated_at)
    select nextval('resource_classes_id'), name, coalesce(to_timestamp(updated_at), now())
    from (select name, updated_at from found_classes f
          where not exists (select from resource_classes c where c.name = f.name)
          order by id) as new;

insert into traits (id, name, updated_at)
    select nextval('traits_id'), name, coalesce(to_timestamp(updated_at), now())
    from (select name, updated_at from source_traits s
          where not exists (select from traits t where t.name = s.name)
          order by id) as new;

insert into projects (external_id)
    select external_id from source_projects
    union select project from found_consumers
    on conflict (external_id) do nothing;
insert into users (external_id)
    select external_id from source_users
    union select "user" from found_consumers
    on conflict (external_id) do nothing;
insert into consumer_types (name)
    select name from source_consumer_types order by id
    on conflict (name) do nothing;

insert into providers (id, uuid, name, generation, parent_id, root_id, updated_at)
    overriding system value
    select id, uuid, name, generation, parent_id, root_id, coalesce(to_timestamp(updated_at), now())
    from found_providers order by id;
select setval(pg_get_serial_sequence('providers', 'id'), (select max(id) from providers));

insert into provider_traits (provider_id, trait_id)
    select distinct m.resource_provider_id, t.id
    from source_resource_provider_traits m
    join found_providers p on p.id = m.resource_provider_id
    join source_traits s on s.id = m.trait_id
    join traits t on t.name = s.name;

insert into provider_aggregates (provider_id, aggregate, spelling)
    select provider_id, aggregate, spelling from found_aggregates;

insert into inventories (provider_id, class_id, total, reserved, min_unit, max_unit, step_size,
                         allocation_ratio, used, updated_at)
    select i.provider_id, c.id, i.total, i.reserved, i.min_unit, i.max_unit, i.step_size,
           i.allocation_ratio, coalesce(a.used, 0), coalesce(to_timestamp(i.updated_at), now())
    from found_inventories i
    join found_classes f on f.id = i.class_id
    join resource_classes c on c.name = f.name
    left join (select provider_id, class_id, sum(used)::bigint as used
               from found_allocations group by provider_id, class_id) as a
      on a.provider_id = i.provider_id and a.class_id = i.class_id;

insert into consumers (uuid, project_id, user_id, consumer_type_id, generation)
    select f.uuid, p.id, u.id, t.id, f.generation
    from found_consumers f
    join projects p on p.external_id = f.project
    join users u on u.external_id = f.user
    left join consumer_types t on t.name = f.type
    order by f.source_id nulls last, f.uuid;

insert into allocations (consumer_id, provider_id, class_id, used, updated_at)
    select c.id, a.provider_id, k.id, a.used, coalesce(to_timestamp(a.updated_at), now())
    from found_allocations a
    join consumers c on c.uuid = a.consumer
    join found_classes f on f.id = a.class_id
    join resource_classes k on k.name = f.name;

-- Replicas that run read everything anew when the epoch is another.
update epoch set id = gen_random_uuid();
