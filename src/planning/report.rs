//! Reports misplaced servers.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::context::Planning;
use super::failure::Failure;
use super::offload::run;
use crate::fairness::turns::Requester;
use crate::planner::group::StoredGroup;
use crate::planner::ids::same;
use crate::planner::plan::Placement;
use crate::planner::report::{Report, ReportContext};
use crate::planner::topology::Topology;
use crate::store::planner::plans::{PlacementFilter, Scope};
use crate::world::World;

/// Maximum number of plan documents in memory at once.
const DOCUMENTS_AT_ONCE: usize = 8;

/// The data shared by all parts of a report.
struct ReportData {
    world: Arc<World>,
    topology: Topology,
    groups: Vec<StoredGroup>,
    placements: Vec<Placement>,
    /// The positions of the placements of each plan.
    of_plan: HashMap<Uuid, Vec<usize>>,
}

impl ReportData {
    fn context(&self) -> ReportContext<'_> {
        ReportContext { world: &self.world, topology: &self.topology, groups: &self.groups }
    }
}

impl Planning {
    /// Lists the servers visible to a caller that break rules, or are on other hosts than planned.
    ///
    /// # Errors
    /// `NoTurn`, `Store`.
    pub(crate) async fn report(
        &self,
        scope: Scope<'_>,
        requester: Requester,
    ) -> Result<Report, Failure> {
        let turn = self.read_turn(requester).await?;
        let groups = self.store.groups().await?;
        let servers = self.store.group_servers().await?;
        let exclusive = self.store.surroundings(&[], &[]).await?.exclusive;
        let mut non_members = self.store.non_members().await?;
        let only = scope.only_project().map(str::to_owned);
        let plans = self.store.plans_with_rules(only.as_deref()).await?;
        let mut placements = self.store.placements(&PlacementFilter::of(scope)).await?;
        placements.retain(|row| !row.leaving);
        // Read last, so that it has every provider of the servers.
        let world = self.store.world().await?;
        let topology = self.topology(&world);
        let (data, mut report) = run(turn, move || {
            let is_seen = |project: &str| only.as_deref().is_none_or(|only| same(only, project));
            non_members.retain(|it| it.project.as_deref().is_some_and(is_seen));
            let mut of_plan: HashMap<Uuid, Vec<usize>> = HashMap::new();
            for (nth, row) in placements.iter().enumerate() {
                of_plan.entry(row.plan).or_default().push(nth);
            }
            let data = ReportData { world, topology, groups, placements, of_plan };
            let mut report = Report::default();
            let context = data.context();
            context.stored_groups(&servers, &exclusive, &is_seen, &mut report);
            context.non_members(&non_members, &mut report);
            context.elsewhere(&data.placements, &mut report);
            Ok((Arc::new(data), report))
        })
        .await?;
        for plans in plans.chunks(DOCUMENTS_AT_ONCE) {
            let turn = self.read_turn(requester).await?;
            let documents = self.store.plan_documents(plans).await?;
            let data = Arc::clone(&data);
            report = run(turn, move || Ok(plans_of(&data, &documents, report))).await?;
        }
        Ok(report)
    }
}

/// Adds the misplaced servers of these plans.
fn plans_of(data: &ReportData, documents: &[(Uuid, String)], mut report: Report) -> Report {
    for (plan, document) in documents {
        let rows = data.of_plan.get(plan).into_iter().flatten();
        let rows: Vec<&Placement> = rows.filter_map(|nth| data.placements.get(*nth)).collect();
        if let Err(why) = data.context().plan(document, &rows, &mut report) {
            tracing::warn!(%plan, %why, "a plan is left out of the report of misplaced servers");
        }
    }
    report
}
