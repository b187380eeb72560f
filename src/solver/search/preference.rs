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

/// A pseudo-random number for a host, which differs from round to round.
pub(super) fn shuffled(host: usize, round: u64) -> u64 {
    let mut it = (host as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(round << 32);
    it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32
}
