//! All plans of a caller, with the host of each server.

use std::collections::HashMap;

use uuid::Uuid;

use super::context::Planning;
use super::failure::Failure;
use super::offload::run;
use crate::fairness::turns::Requester;
use crate::planner::location;
use crate::planner::plan::{Placement, PlanHead};
use crate::store::planner::plans::{PlacementFilter, Scope};

/// A plan in a list.
#[derive(Debug)]
pub(crate) struct ListedPlan {
    /// Its ids and its name.
    pub(crate) plan: PlanHead,
    /// The placements of its servers, each with the name of its host; `None` if the capacity is gone.
    pub(crate) placements: Vec<(Placement, Option<String>)>,
}

impl Planning {
    /// All plans that a caller sees, oldest first.
    ///
    /// # Errors
    /// `NoTurn`, `Store`.
    pub(crate) async fn list(
        &self,
        scope: Scope<'_>,
        requester: Requester,
    ) -> Result<Vec<ListedPlan>, Failure> {
        let turn = self.read_turn(requester).await?;
        let heads = self.store.plan_heads(scope.only_project()).await?;
        let rows = self.store.placements(&PlacementFilter::of(scope)).await?;
        // Read last, so that it has every provider of the placements.
        let world = self.store.world().await?;
        let topology = self.topology(&world);
        run(turn, move || {
            let mut of_plan: HashMap<Uuid, Vec<(Placement, Option<String>)>> = HashMap::new();
            for row in rows.into_iter().filter(|row| !row.leaving) {
                let host = location(&world, &topology, &row.holds).map(str::to_owned);
                of_plan.entry(row.plan).or_default().push((row, host));
            }
            let listed = heads.into_iter().map(|plan| {
                let placements = of_plan.remove(&plan.id).into_iter().flatten().collect();
                ListedPlan { plan, placements }
            });
            Ok(listed.collect())
        })
        .await
    }
}
