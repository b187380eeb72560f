//! What is to be explained.

use std::sync::Arc;

use crate::planner::compose::Composed;
use crate::planner::stack::{Stack, Surroundings};
use crate::solver::Conflict;
use crate::world::World;

/// What is to be explained.
pub(in crate::planner) struct Case<'c> {
    /// The world that the problem was composed of.
    pub(in crate::planner) world: &'c Arc<World>,
    /// The stack, in which no server is absent.
    pub(in crate::planner) stack: &'c Stack,
    /// What surrounds it.
    pub(in crate::planner) around: &'c Surroundings,
    /// The problem.
    pub(in crate::planner) composed: &'c Composed,
    /// The servers and rules of it that contradict each other.
    pub(in crate::planner) conflict: &'c Conflict,
}
