-- How clients spelled an aggregate: what is shown of it. A member of an aggregate is one whatever the
-- spelling; two spellings of one aggregate are two rows. Empty: as PostgreSQL writes a UUID.
--
-- Programs of the version before write and read rows without a spelling, which they may go on to do.
alter table provider_aggregates add column spelling text not null default '';
alter table provider_aggregates
    drop constraint provider_aggregates_pkey,
    add primary key (provider_id, aggregate, spelling);
