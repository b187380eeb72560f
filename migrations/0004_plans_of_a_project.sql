-- What a project plans binds no other project: ids of stacks and of instances, which clients choose, are
-- unique within a project and not in the world. And how much a project may have in the planner is
-- bounded, so what it has must be found by its project.

-- Its first column serves those who see the plans of all projects.
alter table plans
    drop constraint plans_stack_key,
    add constraint plans_stack_key unique (stack_key, project);

-- The project of the plan, which never changes, here for the unique keys below.
alter table placements add column project text;
update placements p set project = s.project from plans s where s.id = p.plan_id;
alter table placements alter column project set not null;

-- Replicas of the version before do not name the project.
create function placement_of_a_project() returns trigger language plpgsql as $$
begin
    new.project := (select project from plans where id = new.plan_id);
    return new;
end
$$;
create trigger placements_of_a_project before insert on placements
    for each row when (new.project is null) execute function placement_of_a_project();

-- An instance is that of its consumer's project. What others say of it is stored beside, and counts
-- nothing.
alter table placements
    drop constraint placements_consumer,
    drop constraint placements_ticket,
    add constraint placements_consumer unique (consumer, project),
    add constraint placements_ticket unique (ticket, project);
drop index placements_resource_key;
create unique index placements_resource_key on placements (resource_key, project)
    where resource_key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' and not leaving;
create index placements_project on placements (project);

-- The project that made a group; null for those that were made before. A group is for all projects
-- even so: its members say whose servers may be in it.
alter table planner_groups add column project text;
create index planner_groups_project on planner_groups (project);
