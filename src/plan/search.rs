//! The search: depth first, the hardest to place first, the best place first, and no further where
//! nothing better than what is known can be found.
//!
//! It goes on in rounds. Each begins anew and gives up after so many dead ends, more in every round,
//! having learned which kinds lead to dead ends; between them the best placement known is improved
//! part by part. A round that does not give up has been everywhere, which ends the search.

use super::Problem;
use super::bound::{Bound, bound};
use super::clock::Clock;
use super::cost::Cost;
use super::dive::{Dive, Found};
use super::improve::improve;
use super::limits::Limits;
use super::precheck::{can_be_apart, rule_out_units};
use super::setting::Setting;
use super::state::State;

/// Dead ends after which the first round gives up.
const DEAD_ENDS_FIRST: u64 = 64;

/// Dead ends of a round after which it stays unknown whether there is any way, if nothing else is
/// asked for.
const DEAD_ENDS_LAST: u64 = 1024;

/// Dead ends of a round from which on the search ends when only the fit could be better, and the last
/// rounds found none that is: whoever waits has waited long enough for that.
const DEAD_ENDS_IDLE: u64 = 2048;
/// As many rounds.
const ROUNDS_IDLE: u32 = 3;

/// Where everything goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// Where each server goes.
    pub places: Vec<Place>,
    /// What that costs.
    pub cost: Cost,
    /// What it costs at the least: the same, if nothing better is possible.
    pub bound: Cost,
}

/// Where a server goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The host.
    pub host: usize,
    /// Which of its ways there.
    pub way: usize,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything has a place. If the bound is less than the cost, the time was up before it was
    /// known whether there is better.
    Placed(Solution),
    /// There is no way.
    Impossible,
    /// The time was up before there was an answer.
    OutOfTime,
}

/// Finds places for all servers, at the least cost that is found while `is_time_up` says no.
///
/// `is_time_up` is asked after every fraction of a millisecond, always after the same work: if it
/// counts how often, the answer is the same each time.
pub fn solve(problem: &Problem, mut is_time_up: impl FnMut() -> bool) -> Outcome {
    search(problem, &mut Clock::new(&mut is_time_up), Aim::Best)
}

/// The same, until a clock says that it has to end.
pub fn solve_by(problem: &Problem, clock: &mut Clock<'_>) -> Outcome {
    search(problem, clock, Aim::Best)
}

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The best placement.
    Best,
    /// Any, to know whether there is one, unless that takes long.
    Any,
}

pub(super) fn search(problem: &Problem, clock: &mut Clock<'_>, aim: Aim) -> Outcome {
    let kept = clock.kept();
    let outcome = search_for(problem, clock, aim);
    // What the search has kept is gone with it.
    clock.let_go_to(kept);
    outcome
}

fn search_for(problem: &Problem, clock: &mut Clock<'_>, aim: Aim) -> Outcome {
    let setting = Setting::of(problem, clock);
    if clock.is_up() {
        return Outcome::OutOfTime;
    }
    let Some(setting) = setting else { return Outcome::Impossible };
    let mut state = State::new(&setting, clock);
    rule_out_units(&mut state, clock);
    // What follows is of no use once the time is up.
    if clock.is_up() {
        return Outcome::OutOfTime;
    }
    let limits = Limits::of(&state, clock);
    let can_be_apart = can_be_apart(&state, clock);
    if clock.is_up() {
        return Outcome::OutOfTime;
    }
    if !can_be_apart {
        return Outcome::Impossible;
    }
    let first = bound(&state, &limits, None, clock);
    if clock.is_up() {
        return Outcome::OutOfTime;
    }
    let Some(Bound { least, .. }) = first else { return Outcome::Impossible };
    let enough = match aim {
        Aim::Best => least,
        Aim::Any => Cost { moved: u64::MAX, ..Cost::default() },
    };
    let mut dive = Dive::new(&setting, &limits, enough);
    let dead_ends_last = if aim == Aim::Any { DEAD_ENDS_LAST } else { u64::MAX };
    let is_all = rounds(&mut dive, &mut state, (dead_ends_last, least), clock);
    match dive.best {
        Some(Found { cost, places, .. }) => {
            let bound = if is_all { cost } else { least.min(cost) };
            Outcome::Placed(Solution { places, cost, bound })
        }
        None if is_all => Outcome::Impossible,
        None => Outcome::OutOfTime,
    }
}

/// Searches until everything has been seen, the best placement is good enough or the time is up, and
/// says whether it is the first.
fn rounds(
    dive: &mut Dive<'_>,
    state: &mut State<'_>,
    (dead_ends_last, least): (u64, Cost),
    clock: &mut Clock<'_>,
) -> bool {
    let mut dead_ends = DEAD_ENDS_FIRST;
    let mut round = 0;
    let mut idle = 0;
    while dead_ends <= dead_ends_last {
        let before = dive.best.as_ref().map(|found| found.cost);
        dive.begin(round);
        if dive.run(state, dead_ends, clock) {
            return true;
        }
        if clock.is_up() || dive.is_enough() {
            return false;
        }
        if dive.best.is_some() {
            improve(dive, state, dead_ends, clock);
        }
        if clock.is_up() || dive.is_enough() {
            return false;
        }
        let now = dive.best.as_ref().map(|found| found.cost);
        idle = if now == before { idle + 1 } else { 0 };
        let only_room = now.is_some_and(|now| Cost { room: least.room, ..now } == least);
        if only_room && idle >= ROUNDS_IDLE && dead_ends >= DEAD_ENDS_IDLE {
            return false;
        }
        dead_ends = dead_ends.saturating_mul(2);
        round += 1;
    }
    false
}
