-- What Berth stores, in the form of the reference's tables, with keys that begin at 1: MySQL would take a
-- key of 0 as a request to choose one.

create temporary table target_resource_classes on commit drop as
    select id + 1 as id, name, extract(epoch from updated_at)::bigint as updated_at
    from resource_classes;
create temporary table target_traits on commit drop as
    select id + 1 as id, name, extract(epoch from updated_at)::bigint as updated_at from traits;

create temporary table target_projects on commit drop as
    select row_number() over (order by id) as id, external_id, id as own_id from projects;
create temporary table target_users on commit drop as
    select row_number() over (order by id) as id, external_id, id as own_id from users;
create temporary table target_consumer_types on commit drop as
    select row_number() over (order by id) as id, name, id as own_id from consumer_types;

create temporary table target_resource_providers on commit drop as
    with recursive tree as (
        select id, 0 as depth from providers where parent_id is null
        union all
        select child.id, tree.depth + 1
        from providers child join tree on child.parent_id = tree.id
    ), numbered as (select row_number() over (order by id) as number, * from providers)
    select tree.depth, p.number as id, p.uuid::text as uuid, p.name, p.generation,
           root.number as root_provider_id, parent.number as parent_provider_id,
           floor(extract(epoch from p.updated_at))::bigint as updated_at, p.id as own_id
    from numbered p
    join tree using (id)
    join numbered root on root.id = p.root_id
    left join numbered parent on parent.id = p.parent_id;
create unique index on target_resource_providers (own_id);

-- The reference has 36 characters for a spelling. Where texts are compared without regard to case, spellings that differ
-- in nothing else are one: in lower case.
create temporary table target_spellings on commit drop as
    select provider_id, spelling,
           case when IGNORES_CASE and least_spelling <> greatest_spelling then lower(fitting) else fitting end as spelled
    from (select *, min(fitting collate "C") over same as least_spelling,
                 max(fitting collate "C") over same as greatest_spelling
          from (select provider_id, coalesce(nullif(spelling, ''), aggregate::text) as spelling,
                       case when length(spelling) between 1 and 36 then spelling else aggregate::text end as fitting
                from provider_aggregates) as each
          window same as (partition by lower(fitting))) as spellings;
create temporary table target_placement_aggregates on commit drop as
    select row_number() over (order by spelled) as id, spelled as uuid
    from (select distinct spelled from target_spellings) as spellings;

create temporary table target_resource_provider_traits on commit drop as
    select p.id as resource_provider_id, t.trait_id + 1 as trait_id
    from provider_traits t join target_resource_providers p on p.own_id = t.provider_id;
create temporary table target_resource_provider_aggregates on commit drop as
    select distinct p.id as resource_provider_id, a.id as aggregate_id
    from target_spellings m
    join target_resource_providers p on p.own_id = m.provider_id
    join target_placement_aggregates a on a.uuid = m.spelled;

create temporary table target_inventories on commit drop as
    select row_number() over (order by i.provider_id, i.class_id) as id, p.id as resource_provider_id,
           i.class_id + 1 as resource_class_id, i.total, i.reserved, i.min_unit, i.max_unit,
           i.step_size, i.allocation_ratio, floor(extract(epoch from i.updated_at))::bigint as updated_at
    from inventories i join target_resource_providers p on p.own_id = i.provider_id;

create temporary table target_consumers on commit drop as
    select row_number() over (order by c.id) as id, c.uuid::text as uuid, p.id as project_id,
           u.id as user_id, c.generation, t.id as consumer_type_id, c.id as own_id
    from consumers c
    join target_projects p on p.own_id = c.project_id
    join target_users u on u.own_id = c.user_id
    left join target_consumer_types t on t.own_id = c.consumer_type_id;
create unique index on target_consumers (own_id);

create temporary table target_allocations on commit drop as
    select row_number() over (order by c.id, p.id, a.class_id) as id, p.id as resource_provider_id,
           c.uuid as consumer_id, a.class_id + 1 as resource_class_id, a.used,
           floor(extract(epoch from a.updated_at))::bigint as updated_at
    from allocations a
    join target_consumers c on c.own_id = a.consumer_id
    join target_resource_providers p on p.own_id = a.provider_id;
