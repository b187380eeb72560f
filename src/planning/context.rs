//! The context of planning: store, turns, clock and limits; the plan that a caller names; the terms of a request.

use std::time::Duration;

use crate::fairness::turns::{Requester, Turns};
use crate::fairness::watch::Watch;
use crate::model::PlacementPolicy;
use crate::planner::headroom::Headroom;
use crate::planner::topology::Topology;
use crate::store::planner::caps::Caps;
use crate::store::planner::plans::Scope;
use crate::store::{Changes, Store};
use crate::world::World;

/// Maximum number of attempts at a change while other requests interfere.
pub(super) const ATTEMPTS_MAX: usize = 5;

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
    /// Access for the changes of the request.
    pub(crate) changes: Changes,
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
    /// The policy for volumes.
    pub(crate) volume_policy: PlacementPolicy,
    /// Limits on what each project may store.
    pub(crate) caps: Caps,
    /// The capacity that plans leave free.
    pub(crate) headroom: Headroom,
}

impl Planning {
    /// Returns the topology of a world, as the options say.
    pub(super) fn topology(&self, world: &World) -> Topology {
        Topology::of(world, self.host_names)
    }
}

/// Bounds and options of a planning request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Time limit of the solver.
    pub(crate) budget: Duration,
    /// Whether to write nothing.
    pub(crate) dry_run: bool,
    /// Number of alternative placements to search for.
    pub(crate) alternatives: usize,
    /// The requester of its turns.
    pub(crate) requester: Requester,
}
