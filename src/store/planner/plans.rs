//! Stored plans and their placements.

use std::collections::HashMap;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

use super::exclusive_units::HostRow;
use crate::model::{ClassId, ExclusiveHost, ProviderId};
use crate::planner::aggregates::AggregateMetadata;
use crate::planner::ids::same;
use crate::planner::plan::{Placement, Plan, PlanHead};
use crate::planner::stack::Surroundings;
use crate::store::Result;
use crate::store::access::Store;

/// Maximum number of plans that are named when a key is ambiguous.
const NAMED_MAX: i64 = 10;

/// The plans and placements visible to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'p> {
    /// The caller's project.
    pub project: &'p str,
    /// Whether those of all other projects are visible, too.
    pub all: bool,
}

impl<'p> Scope<'p> {
    /// Returns the project whose plans are visible; `None`: those of all projects.
    pub fn only_project(self) -> Option<&'p str> {
        if self.all { None } else { Some(self.project) }
    }
}

/// The result of looking a plan up by a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanLookup {
    /// There is no such plan among the visible ones.
    Nothing,
    /// There is exactly one.
    Plan(Box<Plan>),
    /// There are several of other projects, and none of the caller's: some of their ids.
    Several(Vec<Uuid>),
}

/// A filter of placements; all given parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementFilter {
    /// By id.
    pub id: Option<Uuid>,
    /// By orchestration id, in its normalized form.
    pub orchestration_key: Option<String>,
    /// By the id of the instance, in its normalized form.
    pub resource_key: Option<String>,
    /// By plan.
    pub plan: Option<Uuid>,
    /// By the project of the plan.
    pub project: Option<String>,
}

impl PlacementFilter {
    /// Makes a filter for all placements visible to a caller.
    pub fn of(scope: Scope<'_>) -> Self {
        Self { project: scope.only_project().map(str::to_owned), ..Self::default() }
    }
}

/// Selects at most two plans with this id or stack: first the one with the id, then one of the caller's project.
fn select<'c>(
    id: Option<Uuid>,
    stack_key: &str,
    scope: Scope<'_>,
    conn: &'c mut PgConnection,
) -> BoxFuture<'c, sqlx::Result<Vec<Plan>>> {
    sqlx::query_as!(
        Plan,
        r#"select id, name, stack_id, stack_key, project, user_id as "user", document, generation,
                  any_project
           from plans where (id = $1 or stack_key = $2) and ($4 or project = $3)
           order by coalesce(id = $1, false) desc, project = $3 desc limit 2"#,
        id,
        stack_key,
        scope.project,
        scope.all
    )
    .fetch_all(conn)
    .boxed()
}

impl Store {
    /// Looks a plan up by a normalized key: by its id, or else by that of its stack. Stacks belong to a project; a
    /// caller who sees all projects gets the own plan, or else the only one.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn plan(&self, key: &str, scope: Scope<'_>) -> Result<PlanLookup> {
        let id = Uuid::parse_str(key).ok();
        let plans = self.read(|conn| select(id, key, scope, conn)).await?;
        let only = plans.len() < 2;
        let Some(first) = plans.into_iter().next() else { return Ok(PlanLookup::Nothing) };
        if only || Some(first.id) == id || first.project == scope.project {
            return Ok(PlanLookup::Plan(Box::new(first)));
        }
        let named = self
            .read(|conn| {
                sqlx::query_scalar!(
                    "select id from plans where stack_key = $1 order by created_at, id limit $2",
                    key,
                    NAMED_MAX
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        Ok(PlanLookup::Several(named))
    }

    /// Returns the plan that a project has for a stack, by the stack's normalized id.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn plan_of_stack(&self, stack_key: &str, project: &str) -> Result<Option<Plan>> {
        let scope = Scope { project, all: false };
        Ok(self.read(|conn| select(None, stack_key, scope, conn)).await?.pop())
    }

    /// Returns the names of all plans of a project, or of all projects, oldest first.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn plan_names(&self, project: Option<&str>) -> Result<Vec<String>> {
        let names = self
            .read(|conn| {
                sqlx::query_scalar!(
                    "select name from plans where $1::text is null or project = $1
             order by created_at, id",
                    project
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        Ok(names)
    }

    /// Returns the ids and names of all plans of a project, or of all projects, oldest first.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn plan_heads(&self, project: Option<&str>) -> Result<Vec<PlanHead>> {
        let heads = self
            .read(|conn| {
                sqlx::query_as!(
                    PlanHead,
                    "select id, name, stack_id from plans
                     where $1::text is null or project = $1 order by created_at, id",
                    project
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        Ok(heads)
    }

    /// Returns plans with placements on any of these providers, at most `plans_max` of them, found in at most so many
    /// allocations.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn plans_on(
        &self,
        providers: &[ProviderId],
        allocations_max: u32,
        plans_max: u32,
    ) -> Result<Vec<Uuid>> {
        let providers: Vec<i64> = providers.iter().map(|id| id.0).collect();
        let plans = self
            .read(|conn| {
                sqlx::query_scalar!(
                    "with allocated as materialized (
                         select consumer_id from allocations where provider_id = any($1) limit $2
                     ), holding as (
                         select distinct consumer_id from allocated
                     )
                     select distinct p.plan_id from holding h join consumers c on c.id = h.consumer_id
                     join placements p on p.consumer = c.uuid order by 1 limit $3",
                    &providers,
                    i64::from(allocations_max),
                    i64::from(plans_max)
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        Ok(plans)
    }

    /// Returns placements, in the order of plans and of servers in them.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn placements(&self, filter: &PlacementFilter) -> Result<Vec<Placement>> {
        let rows = self.read(|conn| sqlx::query!(
            r#"select p.id, p.plan_id, p.project, o.external_id as "owner?", s.any_project, p.position, p.orchestration_id, p.orchestration_key, p.name,
                      p.resource_id, p.resource_key, p.reserved, p.consumer, p.ticket, p.metadata,
                      p.leaving, p.planned_on,
                      array(select group_id from placement_groups g where g.placement_id = p.id
                            order by 1) as "groups!",
                      a.provider_id as "provider?", a.class_id as "class?", a.used as "used?"
               from plans s join placements p on p.plan_id = s.id
               left join consumers c on c.uuid = p.consumer
               left join projects o on o.id = c.project_id
               left join allocations a on a.consumer_id = c.id
               where ($1::uuid is null or p.id = $1)
                 and ($2::text is null or p.orchestration_key = $2)
                 and ($3::text is null or p.resource_key = $3)
                 and ($4::uuid is null or p.plan_id = $4)
                 and ($5::text is null or p.project = $5)
               order by s.created_at, s.id, p.position, p.id, a.provider_id, a.class_id"#,
            filter.id,
            filter.orchestration_key,
            filter.resource_key,
            filter.plan,
            filter.project
        ).fetch_all(conn).boxed()).await?;
        let mut placements: Vec<Placement> = Vec::new();
        for row in rows {
            if placements.last().is_none_or(|last| last.id != row.id) {
                placements.push(Placement {
                    id: row.id,
                    plan: row.plan_id,
                    project: row.project.clone(),
                    position: row.position,
                    orchestration_id: row.orchestration_id,
                    orchestration_key: row.orchestration_key,
                    name: row.name,
                    resource_id: row.resource_id,
                    resource_key: row.resource_key,
                    reserved: row.reserved,
                    consumer: row.consumer,
                    ticket: row.ticket,
                    metadata: row.metadata,
                    leaving: row.leaving,
                    groups: row.groups,
                    planned_on: row.planned_on.map(ProviderId),
                    holds: Vec::new(),
                });
            }
            let is_own =
                row.owner.is_some_and(|owner| row.any_project || same(&owner, &row.project));
            if let (Some(placement), Some(provider), Some(class), Some(used), true) =
                (placements.last_mut(), row.provider, row.class, row.used, is_own)
            {
                placement.holds.push((ProviderId(provider), ClassId(class), used));
            }
        }
        Ok(placements)
    }

    /// Returns the providers that tenants and all other placements of the groups use, and all exclusive hosts. Racks
    /// are not read from names.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn surroundings(&self, placements: &[Uuid], groups: &[Uuid]) -> Result<Surroundings> {
        let rows = self
            .read(|conn| {
                sqlx::query!(
                    r#"select pg.group_id as "group_id!",
                      array_agg(distinct a.provider_id order by a.provider_id) as "providers!"
               from placement_groups pg join placements p on p.id = pg.placement_id
               join consumers c on c.uuid = p.consumer
               join allocation_sets a on a.consumer_id = c.id
               where pg.group_id = any($1) and p.id <> all($2)
               group by pg.group_id, p.id
               union all
               select t.group_id, array_agg(distinct a.provider_id order by a.provider_id)
               from exclusive_tenants t
               join consumers c on c.uuid = t.consumer
               join allocation_sets a on a.consumer_id = c.id
               where t.group_id = any($1)
               group by t.group_id, t.consumer order by 1, 2"#,
                    groups,
                    placements
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        let mut occupied: HashMap<Uuid, Vec<Vec<ProviderId>>> = HashMap::new();
        for row in rows {
            let providers = row.providers.into_iter().map(ProviderId).collect();
            occupied.entry(row.group_id).or_default().push(providers);
        }
        let known = groups.iter().copied().collect();
        let (exclusive, names) = self.exclusive_hosts().await?;
        let aggregates = AggregateMetadata::default();
        let around = Surroundings {
            occupied,
            known,
            exclusive,
            names,
            aggregates,
            ..Surroundings::default()
        };
        Ok(around)
    }

    /// Reads the hosts that groups have exclusively, and the names of these groups.
    async fn exclusive_hosts(&self) -> Result<(Vec<ExclusiveHost>, HashMap<Uuid, String>)> {
        let rows = self
            .read(|conn| {
                sqlx::query!(
                    "select e.root_id, e.level, e.unit, e.group_id, g.name
                     from exclusive_units e join planner_groups g on g.id = e.group_id
                     order by e.root_id, e.level"
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        let mut names = HashMap::new();
        let mut hosts = Vec::with_capacity(rows.len());
        for row in rows {
            names.insert(row.group_id, row.name);
            let (root_id, level, unit, group_id) = (row.root_id, row.level, row.unit, row.group_id);
            hosts.push(HostRow { root_id, level, unit, group_id }.read()?);
        }
        Ok((hosts, names))
    }
}
