-- A cloud from the neutral tables into Berth's.
insert into providers (id, uuid, name, parent_id, root_id)
    overriding system value
    select id, uuid, name, parent, root from cloud.provider order by id;
select setval(pg_get_serial_sequence('providers', 'id'), (select max(id) from providers));
insert into resource_classes (id, name)
    select nextval('resource_classes_id'), class
    from (select distinct class from cloud.stock) as s
    where not exists (select from resource_classes c where c.name = s.class);
insert into traits (id, name)
    select nextval('traits_id'), trait
    from (select distinct trait from cloud.quality) as q
    where not exists (select from traits t where t.name = q.trait);
insert into inventories (provider_id, class_id, total, reserved, min_unit, max_unit, step_size,
                         allocation_ratio, used)
    select provider, c.id, total, reserved, min_unit, max_unit, step_size, ratio,
           coalesce(h.used, 0)
    from cloud.stock s join resource_classes c on c.name = s.class
        left join (select provider, class, sum(used) as used from cloud.holding group by 1, 2) as h
            using (provider, class)
    order by provider;
insert into provider_traits (provider_id, trait_id)
    select provider, t.id from cloud.quality q join traits t on t.name = q.trait order by provider;
insert into provider_aggregates (provider_id, aggregate)
    select provider, cloud.id_of(2, aggregate) from cloud.member order by provider;
insert into projects (external_id) values ('project');
insert into users (external_id) values ('user');
insert into consumers (id, uuid, project_id, user_id, generation)
    overriding system value
    select distinct consumer, cloud.id_of(3, consumer), p.id, u.id, 1
    from cloud.holding, projects p, users u;
select setval(pg_get_serial_sequence('consumers', 'id'), (select max(id) + 1 from consumers));
insert into allocation_sets (consumer_id, provider_id, class_ids, used)
    select consumer, provider, array_agg(c.id order by c.id), array_agg(used order by c.id)
    from cloud.holding h join resource_classes c on c.name = h.class group by consumer, provider;
