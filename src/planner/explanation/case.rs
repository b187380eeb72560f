//! The input of an explanation.

use std::sync::Arc;

use crate::planner::compose::Composed;
use crate::planner::stack::{Stack, Surroundings};
use crate::solver::Conflict;
use crate::world::World;

/// The input of an explanation.
pub(in crate::planner) struct Case<'c> {
    /// The world from which the problem was composed.
    pub(in crate::planner) world: &'c Arc<World>,
    /// The stack, in which no server is absent.
    pub(in crate::planner) stack: &'c Stack,
    /// Its surroundings.
    pub(in crate::planner) around: &'c Surroundings,
    /// The problem.
    pub(in crate::planner) composed: &'c Composed,
    /// Its servers and rules that contradict each other.
    pub(in crate::planner) conflict: &'c Conflict,
}
