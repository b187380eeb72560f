-- Adds the names of the source that Berth does not have yet. Comes first, because rows refer to them by Berth's keys.

create temporary table touched (provider_id bigint not null) on commit drop;

create temporary table unknown_names on commit drop as
    select 'resource class' as kind, s.id, s.shown as name, s.updated_at from source_resource_classes s
    where not exists (select from resource_classes c where c.name = s.shown)
    union all
    select 'trait', s.id, s.shown, s.updated_at from source_traits s
    where not exists (select from traits t where t.name = s.shown);

with added as (
    insert into resource_classes (id, name, updated_at)
    select nextval('resource_classes_id'), name, coalesce(to_timestamp(updated_at), now())
    from (select name, updated_at from unknown_names where kind = 'resource class' order by id) as new
    -- Two that have one name are refused later, in a sentence.
    on conflict (name) do nothing
    returning id
)
insert into touched select 0 from added;

with added as (
    insert into traits (id, name, updated_at)
    select nextval('traits_id'), name, coalesce(to_timestamp(updated_at), now())
    from (select name, updated_at from unknown_names where kind = 'trait' order by id) as new
    on conflict (name) do nothing
    returning id
)
insert into touched select 0 from added;

insert into projects (external_id)
    select shown from source_projects
    on conflict (external_id) do nothing;
insert into users (external_id)
    select shown from source_users
    on conflict (external_id) do nothing;
insert into consumer_types (name)
    select shown from source_consumer_types
    order by id
    on conflict (name) do nothing;
