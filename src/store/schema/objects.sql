-- What a schema consists of, as far as statements are found by the search path: one line for each
-- table, view, column, constraint, unique index, trigger, sequence and function. Indexes that only make
-- things fast are left out; who looks after a database may have better ones.
with tables as (
    select oid, relname, relkind from pg_class
    where relnamespace in (select oid from pg_namespace
                           where nspname !~ '^pg_' and nspname <> 'information_schema')
        and pg_table_is_visible(oid)
)
select object::text from (
    select format('table %s', relname) from tables where relkind in ('r', 'p')
    union all
    select format('column %s (%s) of %s', attname, format_type(atttypid, atttypmod), relname)
    from pg_attribute join tables on tables.oid = attrelid
    where relkind in ('r', 'p') and attnum > 0 and not attisdropped
    union all
    -- PostgreSQL 18 also has constraints that say "not null".
    select format('constraint %s of %s', conname, relname)
    from pg_constraint join tables on tables.oid = conrelid
    where contype in ('p', 'u', 'f', 'c')
    union all
    select format('unique index %s of %s', i.relname, t.relname)
    from pg_index join tables i on i.oid = indexrelid join tables t on t.oid = indrelid
    where indisunique
        and not exists (select from pg_constraint
                        where conindid = indexrelid and conrelid = indrelid)
    union all
    select format('trigger %s of %s', tgname, relname)
    from pg_trigger join tables on tables.oid = tgrelid
    where not tgisinternal
    union all
    select format('sequence %s', relname) from tables where relkind = 'S'
    union all
    select format('view %s', relname) from tables where relkind = 'v'
    union all
    select format('function %s', proname) from pg_proc
    where pronamespace in (select oid from pg_namespace
                           where nspname !~ '^pg_' and nspname <> 'information_schema')
        and pg_function_is_visible(oid)
) as objects (object)
where object !~ ' _sqlx_migrations$'
order by object collate "C"
