-- An exclusive unit is kept for the instances of its group until their last allocation there is gone, also
-- if the plan is deleted or the placement gone.

-- Instances of exclusivity groups that hold their allocations by no placement of the group any more. A row
-- ends when the instance has no allocation in a unit of the group. `project` is that of the plan.
create table exclusive_tenants (
    consumer uuid not null,
    project text not null,
    group_id uuid not null references planner_groups (id),
    primary key (consumer, project, group_id)
);
create index exclusive_tenants_group_id on exclusive_tenants (group_id);

-- The consumers that are in a group, and the projects that put them there.
create view group_consumers as
    select p.consumer, p.project, g.group_id
    from placements p join placement_groups g on g.placement_id = p.id
    union all
    select consumer, project, group_id from exclusive_tenants;
