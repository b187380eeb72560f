-- Keys of providers, projects, users and consumer types get 64 bits. Creating and deleting uses up
-- keys, and so do refused requests that race with others: 32 bits can be used up within weeks.
--
-- This writes the tables anew, and programs of the version before cannot read them: stop all
-- replicas first (docs/operating.md). A foreign key lets its two columns differ in width while
-- their tables are changed one after the other.
alter table providers
    alter column id type bigint,
    alter column parent_id type bigint,
    alter column root_id type bigint;
alter table inventories alter column provider_id type bigint;
alter table provider_traits alter column provider_id type bigint;
alter table provider_aggregates alter column provider_id type bigint;
alter table allocations alter column provider_id type bigint;
alter table exclusive_units alter column root_id type bigint;
alter table change_log alter column providers type bigint[];

alter table projects alter column id type bigint;
alter table users alter column id type bigint;
alter table consumer_types alter column id type bigint;
alter table consumers
    alter column project_id type bigint,
    alter column user_id type bigint,
    alter column consumer_type_id type bigint;

-- A column that changes its type loses its statistics, and without them the first requests get bad
-- plans until the server comes round to these tables by itself.
analyze providers, inventories, provider_traits, provider_aggregates, allocations, exclusive_units,
    projects, users, consumer_types, consumers;
