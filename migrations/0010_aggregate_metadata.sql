-- Metadata of host aggregates, which flavors of the planner may demand. The aggregates themselves are those of
-- the Placement API, which knows nothing of them but their ids.
create table aggregate_metadata (
    aggregate uuid not null,
    key text not null,
    value text not null,
    primary key (aggregate, key)
);
