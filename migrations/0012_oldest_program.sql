-- Which programs this schema serves, so that a replica of the version before may be started while a newer schema is
-- there. A migration that only adds leaves the number; one that changes or removes what earlier programs use sets it to
-- its own version.
create table schema_compatibility (
    one boolean primary key default true check (one),
    -- The last migration that the oldest program knows which may use this schema.
    oldest_program bigint not null
);
insert into schema_compatibility (oldest_program) values (12);
