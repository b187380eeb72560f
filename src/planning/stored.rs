//! Reads and deletes stored plans.

use super::context::{ATTEMPTS_MAX, PlanRef, Planning};
use super::failure::Failure;
use super::offload::run;
use crate::fairness::turns::Requester;
use crate::planner::booking;
use crate::planner::document::Document;
use crate::planner::draft::CurrentPlan;
use crate::planner::plan::Plan;
use crate::planner::topology::Topology;
use crate::store;
use crate::store::planner::booking::Booking;
use crate::store::planner::plans::{PlacementFilter, PlanLookup};

impl Planning {
    /// Returns a plan without its placements.
    ///
    /// # Errors
    /// `PlanNotFound`, `AmbiguousPlan`, `Store`.
    pub(crate) async fn find(&self, plan: PlanRef<'_>) -> Result<Plan, Failure> {
        match self.store.plan(plan.key, plan.scope).await? {
            PlanLookup::Plan(plan) => Ok(*plan),
            PlanLookup::Nothing => Err(Failure::PlanNotFound),
            PlanLookup::Several(plans) => {
                Err(Failure::AmbiguousPlan { stack: plan.key.to_owned(), plans })
            }
        }
    }

    /// Reads a plan with its placements and their hosts.
    ///
    /// # Errors
    /// Those of [`Self::find`], and `NoTurn`.
    pub(crate) async fn read(
        &self,
        plan: PlanRef<'_>,
        requester: Requester,
    ) -> Result<CurrentPlan, Failure> {
        let turn = self.read_turn(requester).await?;
        let plan = self.find(plan).await?;
        let filter = PlacementFilter { plan: Some(plan.id), ..PlacementFilter::default() };
        let placements = self.store.placements(&filter).await?;
        let (leaving, placements) = placements.into_iter().partition(|it| it.leaving);
        let groups = self.store.groups().await?;
        // Read last, so that it has every provider of the placements.
        let world = self.store.world().await?;
        let host_names = self.host_names;
        run(turn, move || {
            let document = Document::read(&plan.document)?;
            let template = document.template()?;
            let topology = Topology::of(&world, host_names);
            Ok(CurrentPlan {
                plan,
                document,
                template,
                placements,
                leaving,
                groups,
                world,
                topology,
            })
        })
        .await
    }

    /// Deletes a plan. Its holds are released; instances keep their allocations.
    ///
    /// # Errors
    /// Those of [`Self::find`]; `Unsettled` if other requests keep changing the plan.
    pub(crate) async fn delete(&self, plan: PlanRef<'_>) -> Result<(), Failure> {
        for _ in 0..ATTEMPTS_MAX {
            let found = self.find(plan).await?;
            let groups = self.store.groups().await?;
            let filter = PlacementFilter { plan: Some(found.id), ..PlacementFilter::default() };
            let placements = self.store.placements(&filter).await?;
            let booking = booking::delete(&found, &placements, &groups);
            match self.changes.commit(Booking { plan: booking, caps: None }).await {
                Ok(()) => return Ok(()),
                Err(store::Error::Refused(..)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Unsettled("changed"))
    }
}
