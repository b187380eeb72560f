-- A cloud from the neutral tables into the reference's.
insert into resource_providers (id, uuid, name, generation, parent_provider_id, root_provider_id,
                                created_at)
    select id, uuid, name, 0, parent, root, now() from cloud.provider order by id;
select setval(pg_get_serial_sequence('resource_providers', 'id'),
              (select max(id) from resource_providers));
insert into traits (name, created_at)
    select distinct trait, now() from cloud.quality q
    where not exists (select from traits t where t.name = q.trait);
insert into inventories (resource_provider_id, resource_class_id, total, reserved, min_unit,
                         max_unit, step_size, allocation_ratio, created_at)
    select provider, c.id, total, reserved, min_unit, max_unit, step_size, ratio, now()
    from cloud.stock s join resource_classes c on c.name = s.class order by provider;
insert into resource_provider_traits (resource_provider_id, trait_id, created_at)
    select provider, t.id, now()
    from cloud.quality q join traits t on t.name = q.trait order by provider;
insert into placement_aggregates (id, uuid, created_at)
    select distinct aggregate, cloud.id_of(2, aggregate)::text, now() from cloud.member;
insert into resource_provider_aggregates (resource_provider_id, aggregate_id, created_at)
    select provider, aggregate, now() from cloud.member;
insert into projects (external_id, created_at) values ('project', now());
insert into users (external_id, created_at) values ('user', now());
insert into consumers (uuid, project_id, user_id, generation, created_at)
    select distinct cloud.id_of(3, consumer)::text, p.id, u.id, 1, now()
    from cloud.holding, projects p, users u;
insert into allocations (consumer_id, resource_provider_id, resource_class_id, used, created_at)
    select cloud.id_of(3, consumer)::text, provider, c.id, used, now()
    from cloud.holding h join resource_classes c on c.name = h.class;
