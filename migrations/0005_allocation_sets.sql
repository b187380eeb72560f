-- All that a consumer has from a provider is one row: a claim writes a third of the rows and of the index entries.
create table allocation_sets (
    consumer_id bigint not null,
    provider_id bigint not null,
    class_ids integer[] not null,
    -- The amount of each class, in the order of `class_ids`.
    used bigint[] not null,
    updated_at timestamptz not null default now(),
    primary key (consumer_id, provider_id),
    constraint allocation_sets_used check (
        cardinality(class_ids) > 0 and cardinality(class_ids) = cardinality(used) and 0 < all (used))
);
insert into allocation_sets
    select consumer_id, provider_id, array_agg(class_id order by class_id), array_agg(used order by class_id),
           max(updated_at)
    from allocations group by consumer_id, provider_id
    order by consumer_id, provider_id;
create index allocation_sets_provider_id on allocation_sets (provider_id);

drop table allocations;
create view allocations as
    select s.consumer_id, s.provider_id, a.class_id, a.used, s.updated_at
    from allocation_sets s cross join lateral unnest(s.class_ids, s.used) as a (class_id, used);

create or replace function refuse_consumer_that_holds() returns trigger language plpgsql as $$
begin
    if exists (select from allocation_sets where consumer_id = old.id) then
        raise foreign_key_violation using
            message = format('consumer %s holds something', old.uuid),
            constraint = 'allocations_consumer';
    end if;
    return null;
end
$$;

update schema_compatibility set oldest_program = 5;
