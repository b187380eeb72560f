//! The bound for balancing: the load of the policy's units, and that of hosts.

use super::load::{LoadBound, load};
use super::lower_bound::{Bound, SumBounds};
use crate::solver::budget::Budget;
use crate::solver::solution::Cost;
use crate::solver::state::State;

/// Completes the bound, given its component for moves.
pub(super) fn bound(state: &State<'_>, mut least: Cost, budget: &mut Budget<'_>) -> Bound {
    let levels = (0..state.model.counted.len()).map(|level| load(state, level, budget));
    let levels: Vec<LoadBound> = levels.collect();
    let of_level = |level: usize| levels.get(level).map_or(0, LoadBound::all);
    least.load = least.load.saturating_add(of_level(0));
    least.host_load = least.host_load.saturating_add(of_level(1));
    Bound { least, soft_rules: None, rest: SumBounds::Load(levels) }
}
