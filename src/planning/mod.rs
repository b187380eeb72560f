//! Plans from a request to the stored plan: reads the state of the cloud, lets the [planner](crate::planner) choose
//! hosts, and books them; when other requests have changed the state meanwhile, it starts again while there is
//! time.
//!
//! The rules are functions of [`crate::planner`]; this layer runs them on separate threads, in turns that projects
//! share fairly, and is independent of HTTP. All errors are a [`Failure`].

mod attempt;
mod budget;
mod failure;
mod list;
mod offload;
mod placements;
mod recommend;
mod report;

use std::time::Duration;

use metrics::counter;

pub(crate) use self::attempt::{NewPlan, Planned, Terms};
pub(crate) use self::failure::{Failure, Work};
pub(crate) use self::list::ListedPlan;
pub(crate) use self::offload::run;
pub(crate) use self::recommend::{Move, Recommendation};
use crate::fairness::turns::{Requester, Turns};
use crate::fairness::watch::Watch;
use crate::observe::metrics::variant;
use crate::planner::booking;
use crate::planner::document::Document;
use crate::planner::draft::CurrentPlan;
use crate::planner::headroom::Headroom;
use crate::planner::plan::Plan;
use crate::planner::topology::Topology;
use crate::store::planner::booking::Booking;
use crate::store::planner::caps::Caps;
use crate::store::planner::plans::{PlacementFilter, PlanLookup, Scope};
use crate::store::{self, Store};
use crate::world::World;

/// Maximum number of attempts at a change while other requests interfere.
const ATTEMPTS_MAX: usize = 5;

/// Counts the outcome of creating or changing a plan.
pub(crate) fn record(outcome: &Result<Planned, Failure>) {
    let outcome = outcome.as_ref().map_or_else(variant, |_| "planned".to_owned());
    counter!("berth_plans_total", "outcome" => outcome).increment(1);
}

/// A reference to a plan by a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanRef<'p> {
    /// Its id, or that of its stack.
    pub(crate) key: &'p str,
    /// The plans visible to the caller.
    pub(crate) scope: Scope<'p>,
}

/// Everything that planning needs. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Planning {
    /// The store of plans.
    pub(crate) store: Store,
    /// Turns at the solver.
    pub(crate) solver_turns: Turns,
    /// Number of solver threads, shared equally by the plans that have turns.
    pub(crate) solver_threads: usize,
    /// Turns for work whose cost grows with the size of a stored plan.
    pub(crate) read_turns: Turns,
    /// The clock for deadlines.
    pub(crate) watch: Watch,
    /// Maximum time that a request waits for turns; the time of its plan is suspended meanwhile.
    pub(crate) turn_wait: Duration,
    /// Whether racks are derived from the names of hosts without a trait for it.
    pub(crate) host_names: bool,
    /// Limits on what each project may store.
    pub(crate) caps: Caps,
    /// The capacity that plans leave free.
    pub(crate) headroom: Headroom,
}

impl Planning {
    /// A plan without its placements.
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
            match self.store.commit(Booking { plan: booking, caps: None }).await {
                Ok(()) => return Ok(()),
                Err(store::Error::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Unsettled("changed"))
    }

    fn topology(&self, world: &World) -> Topology {
        Topology::of(world, self.host_names)
    }
}
