//! Reads the data of the report of misplaced servers.

use futures_util::FutureExt;
use uuid::Uuid;

use super::exclusive_units::HostRow;
use crate::model::{ExclusiveHost, ProviderId};
use crate::planner::report::{GroupServer, NonMember};
use crate::store::Result;
use crate::store::access::Store;

impl Store {
    /// Returns the servers of all stored groups that use providers, in the order of groups and consumers.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn group_servers(&self) -> Result<Vec<GroupServer>> {
        let rows = self
            .read(|conn| {
                sqlx::query!(
                    r#"select g.group_id as "group!", p.project as "project!",
                              coalesce(p.resource_id, p.orchestration_id) as "server!",
                              p.consumer = p.id as "is_hold!",
                              array_agg(distinct a.provider_id order by a.provider_id) as "providers!"
                       from placement_groups g join placements p on p.id = g.placement_id
                       join consumers c on c.uuid = p.consumer
                       join allocation_sets a on a.consumer_id = c.id
                       group by g.group_id, p.id
                       union all
                       select t.group_id, t.project, t.consumer::text, false,
                              array_agg(distinct a.provider_id order by a.provider_id)
                       from exclusive_tenants t join consumers c on c.uuid = t.consumer
                       join allocation_sets a on a.consumer_id = c.id
                       group by t.group_id, t.project, t.consumer
                       order by 1, 3"#
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        let server = rows.into_iter().map(|row| GroupServer {
            group: row.group,
            project: row.project,
            server: row.server,
            is_hold: row.is_hold,
            providers: row.providers.into_iter().map(ProviderId).collect(),
        });
        Ok(server.collect())
    }

    /// Returns consumers on exclusive hosts of groups that they are not in. Holds of plans are among them.
    ///
    /// # Errors
    /// The database is unavailable, or has an unknown level.
    pub async fn non_members(&self) -> Result<Vec<NonMember>> {
        let rows = self
            .read(|conn| {
                sqlx::query!(
                    r#"select distinct e.root_id as "root_id!", e.level as "level!",
                              e.unit as "unit!", e.group_id as "group_id!", c.uuid as "consumer!",
                              o.external_id as "project?"
                       from exclusive_units e join providers p on p.root_id = e.root_id
                       join allocation_sets a on a.provider_id = p.id
                       join consumers c on c.id = a.consumer_id
                       left join projects o on o.id = c.project_id
                       where not exists (select from group_consumers m
                                         where m.consumer = c.uuid and m.group_id = e.group_id)
                       order by 5, 1, 2"#
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        rows.into_iter()
            .map(|row| {
                let host = HostRow {
                    root_id: row.root_id,
                    level: row.level,
                    unit: row.unit,
                    group_id: row.group_id,
                };
                let host: ExclusiveHost = host.read()?;
                Ok(NonMember { consumer: row.consumer, project: row.project, host })
            })
            .collect()
    }

    /// Returns the plans of a project, or of all projects, whose documents have their own rules: groups or zones.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn plans_with_rules(&self, project: Option<&str>) -> Result<Vec<Uuid>> {
        let ids = self
            .read(|conn| {
                sqlx::query_scalar!(
                    "select id from plans where ($1::text is null or project = $1)
                     and document ~ 'GroupAssignment|ResourceGroup|ServerGroup|availability_zone'
                     order by created_at, id",
                    project
                )
                .fetch_all(conn)
                .boxed()
            })
            .await?;
        Ok(ids)
    }

    /// Returns the documents of plans.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn plan_documents(&self, plans: &[Uuid]) -> Result<Vec<(Uuid, String)>> {
        let rows = self
            .read(|conn| {
                sqlx::query!("select id, document from plans where id = any($1)", plans)
                    .fetch_all(conn)
                    .boxed()
            })
            .await?;
        Ok(rows.into_iter().map(|row| (row.id, row.document)).collect())
    }
}
