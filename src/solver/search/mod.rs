//! The search: branch and bound with restarts, and between the restarts ruin and recreate and large neighbourhood
//! search, which only improve the best placement.
//!
//! Each round starts at the root with the failure counts of all kinds, and gives up after a number of dead ends
//! that doubles from round to round. A round that ends without giving up has covered all placements, which proves
//! its result.

mod affinity;
mod branch_and_bound;
mod incumbent;
mod large_neighbourhood;
mod preference;
mod presolve;
mod pricing;
mod pruning;
mod random;
mod ruin_and_recreate;
mod threads;
mod unit_sets;

use std::sync::Arc;

use self::branch_and_bound::BranchAndBound;
use self::incumbent::Incumbent;
use self::large_neighbourhood::improve;
use self::presolve::{can_be_apart, rule_out_units};
use self::ruin_and_recreate::{Schedule, ruin_and_recreate};
use self::threads::Threads;
use self::unit_sets::try_other_units;
use super::bounds::{Bound, Limits, bound};
use super::budget::Budget;
use super::model::Model;
use super::problem::PlacementProblem;
use super::solution::{Cost, Outcome, Solution};
use super::state::State;

/// Number of dead ends after which the first round gives up.
const DEAD_ENDS_FIRST: u64 = 64;

/// Number of dead ends after which the last round gives up, if the search only decides whether there is a
/// placement.
const DEAD_ENDS_LAST: u64 = 1024;

/// Number of steps of ruin and recreate before the first round, and for each dead end of a round after it.
const STEPS_FIRST: u64 = 256;
const STEPS_FOR_DEAD_END: u64 = 32;

/// Places all servers at the lowest cost found before `is_time_up` returns true.
///
/// `is_time_up` is called after each fraction of a millisecond, always after the same amount of work. If it counts
/// its calls instead of reading a clock, the result is the same in every run.
pub fn solve(problem: &PlacementProblem, mut is_time_up: impl FnMut() -> bool) -> Outcome {
    search(problem, &mut Budget::new(&mut is_time_up), Objective::Optimal)
}

/// Like [`solve`], within a budget that the caller shares with other work.
pub fn solve_within(problem: &PlacementProblem, budget: &mut Budget<'_>) -> Outcome {
    search(problem, budget, Objective::Optimal)
}

/// Like [`solve_within`], for a placement other than the known ones, each given by the host of each server.
/// Placements are the same if they differ only by an exchange of equal servers.
///
/// `Impossible` means that there is no other placement.
pub fn solve_other(
    problem: &PlacementProblem,
    known: &[Vec<usize>],
    budget: &mut Budget<'_>,
) -> Outcome {
    let kept = budget.kept();
    let outcome = search_for(problem, budget, Objective::Optimal, known);
    budget.release_to(kept);
    outcome
}

/// The goal of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objective {
    /// The cheapest placement.
    Optimal,
    /// Any placement, within a limit on the work.
    Feasible,
}

pub(super) fn search(
    problem: &PlacementProblem,
    budget: &mut Budget<'_>,
    objective: Objective,
) -> Outcome {
    let kept = budget.kept();
    let outcome = search_for(problem, budget, objective, &[]);
    // The search has released its memory.
    budget.release_to(kept);
    outcome
}

fn search_for(
    problem: &PlacementProblem,
    budget: &mut Budget<'_>,
    objective: Objective,
    known: &[Vec<usize>],
) -> Outcome {
    budget.start();
    let model = Model::of(problem, budget);
    if budget.is_spent() {
        return Outcome::OutOfTime;
    }
    let Some(model) = model else { return Outcome::Impossible };
    let mut state = State::new(&model, budget);
    rule_out_units(&mut state, budget);
    // A spent budget leaves the state incomplete.
    if budget.is_spent() {
        return Outcome::OutOfTime;
    }
    let limits = Limits::of(&state, budget);
    let can_be_apart = can_be_apart(&state, budget);
    if budget.is_spent() {
        return Outcome::OutOfTime;
    }
    if !can_be_apart {
        return Outcome::Impossible;
    }
    let first = bound(&state, &limits, None, budget);
    if budget.is_spent() {
        return Outcome::OutOfTime;
    }
    let Some(Bound { least, .. }) = first else { return Outcome::Impossible };
    let target = match objective {
        Objective::Optimal => least.clone(),
        Objective::Feasible => Cost { moved: u64::MAX, ..Cost::default() },
    };
    let mut search = BranchAndBound::new(&model, &limits, target, least);
    search.exclude(known, budget);
    let dead_ends_last = if objective == Objective::Feasible { DEAD_ENDS_LAST } else { u64::MAX };
    let is_all = rounds(&mut search, &mut state, dead_ends_last, budget);
    match search.best {
        Some(best) => {
            let Incumbent { cost, assignments, .. } = Arc::unwrap_or_clone(best);
            let bound = if is_all { cost.clone() } else { search.pricing.least.min(cost.clone()) };
            let stopped = budget.spent().filter(|_| bound < cost);
            Outcome::Placed(Box::new(Solution { assignments, cost, bound, stopped }))
        }
        None if is_all => Outcome::Impossible,
        None => Outcome::OutOfTime,
    }
}

/// Searches until a round has covered all placements, the best one reaches the target, or the
/// budget is spent. Returns whether a round has covered all placements.
fn rounds<'p>(
    search: &mut BranchAndBound<'p>,
    state: &mut State<'p>,
    dead_ends_last: u64,
    budget: &mut Budget<'_>,
) -> bool {
    let is_optimised = dead_ends_last == u64::MAX;
    let steps = if is_optimised { STEPS_FIRST } else { 0 };
    let schedule = Schedule { steps, seed: 0, coolness: 1 };
    ruin_and_recreate(search, state, schedule, budget);
    if budget.is_spent() || search.has_reached_target() {
        return false;
    }
    let Some(count) = budget.threads().filter(|_| is_optimised) else {
        return branch(search, state, dead_ends_last, None, budget);
    };
    std::thread::scope(|scope| {
        let mut threads = Threads::new(scope, count, search);
        let is_all = branch(search, state, dead_ends_last, Some(&mut threads), budget);
        threads.end();
        search.take_over(budget);
        is_all
    })
}

/// The rounds of branch and bound, and the steps between them.
fn branch<'scope, 'p: 'scope>(
    search: &mut BranchAndBound<'p>,
    state: &mut State<'p>,
    dead_ends_last: u64,
    mut threads: Option<&mut Threads<'scope, '_>>,
    budget: &mut Budget<'_>,
) -> bool {
    let mut dead_ends = DEAD_ENDS_FIRST;
    let mut round = 0;
    while dead_ends <= dead_ends_last {
        if let Some(threads) = &mut threads {
            threads.start(search, state, budget);
        }
        search.start_round(round);
        if search.run_priced(state, dead_ends, budget) {
            return true;
        }
        if budget.is_spent() || search.has_reached_target() {
            return false;
        }
        if search.best.is_some() {
            let steps = STEPS_FOR_DEAD_END * dead_ends;
            let schedule = Schedule { steps, seed: dead_ends, coolness: 1 };
            ruin_and_recreate(search, state, schedule, budget);
            if budget.is_spent() || search.has_reached_target() {
                return false;
            }
            try_other_units(search, state, schedule, budget);
            if budget.is_spent() || search.has_reached_target() {
                return false;
            }
            improve(search, state, dead_ends, budget);
        }
        if budget.is_spent() || search.has_reached_target() {
            return false;
        }
        dead_ends = dead_ends.saturating_mul(2);
        round += 1;
    }
    false
}
