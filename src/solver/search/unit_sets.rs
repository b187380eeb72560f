//! Other sets of racks or clusters, if the policy packs these.
//!
//! Ruin and recreate seldom leaves a set of racks: the first bundle in another rack costs a rack more, so no bundle
//! moves first. A pass here is limited to a set of racks that differs from that of the best placement by one or
//! two, or has one less, and all racks of the set cost the same. So bundles choose their hosts by the components
//! that follow, as with packing hosts. Several sets get a few steps each, and the one with the best placement gets
//! many.

#![expect(clippy::indexing_slicing, reason = "hosts and units are numbered densely")]

use super::branch_and_bound::BranchAndBound;
use super::random::Random;
use super::ruin_and_recreate::{Kept, Positions, Schedule, SomeHosts, ruin_and_recreate_on};
use crate::solver::budget::Budget;
use crate::solver::counted::CountedUnits;
use crate::solver::state::State;

/// Number of sets that are compared; each of them gets this fraction of the steps.
const SETS: u64 = 12;
const SHARE_OF_SET: u64 = 16;
/// One in this many sets has a unit less than the best placement.
const ONE_LESS: u64 = 4;
/// One in this many sets differs by two units.
const TWO_OTHERS: u64 = 3;

/// Searches for better placements in other sets of units, in less than twice the steps of the schedule. The state
/// is empty before and after, unless the budget is spent.
pub(super) fn try_other_units(
    search: &mut BranchAndBound<'_>,
    state: &mut State<'_>,
    schedule: Schedule,
    budget: &mut Budget<'_>,
) {
    let Some(units) = state.model.packed() else { return };
    let hosts = state.model.problem.hosts.len();
    if budget.room() < memory(hosts) {
        return;
    }
    let kept = budget.kept();
    budget.is_spent_with(memory(hosts));
    let mut random = Random::new(schedule.seed);
    let mut best: Option<(Kept, SomeHosts)> = None;
    for _ in 0..SETS {
        // Each of these visits every unit, bundle and host once or twice.
        budget.is_spent_after(4 * units.count() + 4 * state.positions.len() + 8 * hosts);
        let used = used_units(search, units);
        let may_be_fewer = used.len() as u64 > search.pricing.least.units;
        let potential = &search.limits.potential;
        let Some(set) = other_set(used, potential, may_be_fewer, &mut random) else { break };
        let some = hosts_of(&set, units, search, state);
        let start = best_within(search, &some);
        let steps = schedule.steps / SHARE_OF_SET;
        let schedule = Schedule { steps, seed: random.below(u64::MAX) as u64, ..schedule };
        let found = ruin_and_recreate_on(&some, search, state, (start, schedule), budget);
        let Some(found) = found else { return };
        if search.has_reached_target() {
            break;
        }
        if best.as_ref().is_none_or(|(best, _)| found.is_better_than(best)) {
            best = Some((found, some));
        }
    }
    if let Some((found, some)) = best
        && found.is_complete()
        && !search.has_reached_target()
    {
        let start = found.into_positions();
        ruin_and_recreate_on(&some, search, state, (start, schedule), budget);
    }
    budget.release_to(kept);
}

/// The memory of two sets of hosts, in numbers.
pub(super) fn memory(hosts: usize) -> usize {
    4 * hosts
}

/// The units of the best placement, ascending.
fn used_units(search: &BranchAndBound<'_>, units: &CountedUnits) -> Vec<usize> {
    let mut is_used = vec![false; units.count()];
    for (host, _) in search.best.iter().flat_map(|best| &best.positions) {
        is_used[units.unit(*host)] = true;
    }
    (0..units.count()).filter(|unit| is_used[*unit]).collect()
}

/// A set of units near to that of the best placement: with one or two replaced, or one less, if there may be fewer.
/// `None` if there is no such set.
fn other_set(
    used: Vec<usize>,
    potential: &[u64],
    may_be_fewer: bool,
    random: &mut Random,
) -> Option<Vec<usize>> {
    let offers = |unit: &usize| potential[*unit] > 0 && used.binary_search(unit).is_err();
    let mut others: Vec<usize> = (0..potential.len()).filter(offers).collect();
    let draw = |from: &mut Vec<usize>, random: &mut Random| {
        let at = random.below(from.len() as u64);
        from.swap_remove(at)
    };
    let mut set = used;
    if may_be_fewer && set.len() > 1 && (others.is_empty() || random.below(ONE_LESS) == 0) {
        draw(&mut set, random);
        return Some(set);
    }
    let most = set.len().min(others.len());
    let count = if random.below(TWO_OTHERS) == 0 { 2 } else { 1 }.min(most);
    for _ in 0..count {
        draw(&mut set, random);
    }
    for _ in 0..count {
        set.push(draw(&mut others, random));
    }
    (count > 0).then_some(set)
}

/// The hosts of some units.
fn hosts_of(
    set: &[usize],
    units: &CountedUnits,
    search: &BranchAndBound<'_>,
    state: &State<'_>,
) -> SomeHosts {
    let mut is_among = vec![false; state.model.problem.hosts.len()];
    for host in set.iter().flat_map(|unit| units.hosts(*unit)) {
        is_among[*host] = true;
    }
    let by_fit = state.model.hosts_by_fit_cost.iter().copied();
    let hosts = by_fit.filter(|host| is_among[*host]).collect();
    SomeHosts { hosts, is_among, preferred: search.preferred() }
}

/// The part of the best placement on some hosts.
fn best_within(search: &BranchAndBound<'_>, some: &SomeHosts) -> Positions {
    let positions = search.best.iter().flat_map(|best| best.positions.iter().copied());
    positions.map(|at| Some(at).filter(|(host, _)| some.is_among[*host])).collect()
}
