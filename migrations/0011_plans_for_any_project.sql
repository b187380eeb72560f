-- A scheduler that plans single instances does so with its own project, and the instances belong to others. Such a
-- plan, made by a caller who may change the plans of all projects, is for the instance of any project.
alter table plans add column any_project boolean not null default false;
