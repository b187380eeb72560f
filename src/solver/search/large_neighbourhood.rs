//! Large neighbourhood search: removes some bundles of the best placement, and places them again as cheaply as
//! possible among the others.

#![expect(clippy::indexing_slicing, reason = "bundles are numbered densely")]

use super::branch_and_bound::BranchAndBound;
use super::random::Random;
use crate::solver::budget::Budget;
use crate::solver::problem::Level;
use crate::solver::state::State;

/// Maximum number of bundles that are chosen at random for one neighbourhood.
const PART_MAX: u64 = 12;

/// Improves the best placement until it reaches the target cost, has met `dead_ends_max` dead ends, or has spent
/// the budget. The state is empty before and after, unless the budget is spent.
pub(super) fn improve(
    search: &mut BranchAndBound<'_>,
    state: &mut State<'_>,
    dead_ends_max: u64,
    budget: &mut Budget<'_>,
) {
    let all: Vec<usize> = (0..state.positions.len()).collect();
    let mut random = Random::new(dead_ends_max);
    let mut dead_ends = 0;
    // Once the budget is spent, no bundle may be removed from the state.
    let mut is_placed = put_back(search, state, &all, budget) && !budget.is_spent();
    while is_placed && dead_ends < dead_ends_max && !search.has_reached_target() {
        budget.is_spent_after(4 * state.positions.len());
        let mut part = part(state, &mut random);
        for bundle in &part {
            state.take_back(*bundle, budget);
        }
        let taken_over = search.taken_over;
        search.run_priced(state, 16 + 4 * part.len() as u64, budget);
        dead_ends += 1 + search.dead_ends;
        if search.taken_over > taken_over && !budget.is_spent() {
            // The best placement of another thread may differ everywhere.
            for bundle in &all {
                state.take_back(*bundle, budget);
            }
            part.clone_from(&all);
        }
        is_placed =
            !budget.is_spent() && put_back(search, state, &part, budget) && !budget.is_spent();
    }
    if budget.is_spent() {
        return;
    }
    for bundle in &all {
        state.take_back(*bundle, budget);
    }
}

/// Puts bundles on their hosts in the best placement.
fn put_back(
    search: &BranchAndBound<'_>,
    state: &mut State<'_>,
    part: &[usize],
    budget: &mut Budget<'_>,
) -> bool {
    let Some(best) = &search.best else { return false };
    part.iter()
        .all(|bundle| !budget.is_spent() && state.place(*bundle, best.positions[*bundle], budget))
}

/// A neighbourhood: bundles that may cost less if they are placed again.
fn part(state: &State<'_>, random: &mut Random) -> Vec<usize> {
    let count = state.positions.len();
    let mut part = vec![false; count];
    let kind = random.below(4);
    if kind == 0 {
        // All bundles in the rack of one of them.
        let one = random.below(count as u64);
        for (bundle, part) in part.iter_mut().enumerate() {
            *part = unit(state, bundle, Level::Rack) == unit(state, one, Level::Rack);
        }
    } else if kind == 1 {
        for _ in 0..2 {
            let one = random.below(count as u64);
            for (bundle, part) in part.iter_mut().enumerate() {
                *part |= unit(state, bundle, Level::Host) == unit(state, one, Level::Host);
            }
        }
    }
    for _ in 0..2 + random.below(PART_MAX) {
        let (one, other) = (random.below(count as u64), random.below(count as u64));
        // For half of the neighbourhoods, the one of two bundles whose host costs more.
        let is_worse = kind.is_multiple_of(2) || price(state, one) >= price(state, other);
        part[if is_worse { one } else { other }] = true;
    }
    (0..count).filter(|bundle| part[*bundle]).collect()
}

fn unit(state: &State<'_>, bundle: usize, level: Level) -> Option<usize> {
    state.positions[bundle].and_then(|(host, _)| state.model.units.unit(level, host))
}

fn price(state: &State<'_>, bundle: usize) -> (u64, u64) {
    let model = state.model;
    let moves = |host| model.kinds[model.bundles[bundle].kind].moves(host);
    state.positions[bundle].map_or((0, 0), |(host, _)| (moves(host), model.fit_costs[host]))
}
