-- The host that a placement was planned on last, by the root of its tree, so that instances that are elsewhere
-- can be found. Null for placements of before, and of replicas of the version before.
alter table placements add column planned_on bigint;
