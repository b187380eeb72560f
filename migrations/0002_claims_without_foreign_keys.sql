-- Claims are most of what is written, and foreign keys were a quarter of their cost: for each row a
-- look-up and a row lock, and from every claim of every replica a lock on the same project's row.
--
-- What they promised is kept otherwise. A claim holds the locks of its consumer and providers, and
-- its transaction fails if it does not change exactly the rows it means to (src/store/claims.rs).
-- Projects, users and types of consumers are never deleted. And nothing goes that is still held:
-- the triggers below, which cost only who deletes. `berth db audit` looks for what they rule out.
alter table consumers
    drop constraint consumers_project_id_fkey,
    drop constraint consumers_user_id_fkey,
    drop constraint consumers_consumer_type_id_fkey;
alter table allocations
    drop constraint allocations_consumer_id_fkey,
    drop constraint allocations_inventory;

create function refuse_inventory_in_use() returns trigger language plpgsql as $$
begin
    if exists (select from allocations
               where provider_id = old.provider_id and class_id = old.class_id) then
        raise foreign_key_violation using
            message = format('class %s of provider %s is in use', old.class_id, old.provider_id),
            constraint = 'allocations_inventory';
    end if;
    return null;
end
$$;
create trigger allocations_inventory after delete on inventories
    for each row execute function refuse_inventory_in_use();

create function refuse_consumer_that_holds() returns trigger language plpgsql as $$
begin
    if exists (select from allocations where consumer_id = old.id) then
        raise foreign_key_violation using
            message = format('consumer %s holds something', old.uuid),
            constraint = 'allocations_consumer';
    end if;
    return null;
end
$$;
create trigger allocations_consumer after delete on consumers
    for each row execute function refuse_consumer_that_holds();
