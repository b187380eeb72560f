//! The order in which hosts are tried.

#![expect(clippy::indexing_slicing, reason = "units are numbered densely")]

use std::cmp::Reverse;

use crate::solver::bounds::Limits;
use crate::solver::state::{Added, State};

/// The sort key of the hosts for a bundle: the cost it adds there, with the offer of its unit before the fit, if it
/// would be the first bundle in the unit.
pub(super) type Preference = (u64, u64, u64, u64, Reverse<u64>, u64);

/// The sort key of a host for a bundle that adds this cost there.
pub(super) fn preference(
    state: &State<'_>,
    limits: &Limits,
    host: usize,
    added: Added,
) -> Preference {
    let unit = state.model.packed().map(|counted| counted.unit(host));
    let potential = unit.filter(|unit| state.score.servers(0, *unit) == 0);
    let potential = potential.map_or(0, |unit| limits.potential[unit]);
    let (moved, violations) = (added.moved, added.violations);
    (moved, violations, added.first, added.second, Reverse(potential), added.fit)
}
