-- Adds the names of the source that Berth does not have yet. Comes first, because rows refer to them by Berth's keys.

create temporary table touched (provider_id bigint not null) on commit drop;

create temporary table unknown_names on commit drop as
    select 'resource class' as kind, s.name from source_resource_classes s
    where not exists (select from resource_classes c where c.name = s.name)
    union all
    select 'trait', s.name from source_traits s
    where not exists (select from traits t where t.name = s.name);

with added as (
    insert into resource_classes (id, name, updated_at)
    select nextval('resource_classes_id'), name, coalesce(to_timestamp(updated_at), now())
    from (select name, updated_at from source_resource_classes s
          where not exists (select from resource_classes c where c.name = s.name)
          order by id) as new
    returning id
)
insert into touched select 0 from added;

with added as (
    insert into traits (id, name, updated_at)
    select nextval('traits_id'), name, coalesce(to_timestamp(updated_at), now())
    from (select name, updated_at from source_traits s
          where not exists (select from traits t where t.name = s.name)
          order by id) as new
    returning id
)
insert into touched select 0 from added;

insert into projects (external_id)
    select external_id from source_projects s
    where not exists (select from projects p where p.external_id = s.external_id)
    on conflict (external_id) do nothing;
insert into users (external_id)
    select external_id from source_users s
    where not exists (select from users u where u.external_id = s.external_id)
    on conflict (external_id) do nothing;
insert into consumer_types (name)
    select name from source_consumer_types s
    where not exists (select from consumer_types t where t.name = s.name)
    order by id
    on conflict (name) do nothing;
