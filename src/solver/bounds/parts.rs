//! The parts of diversity rules, and the units that they need.

#![expect(clippy::indexing_slicing, reason = "kinds, rules and units are numbered densely")]

use crate::solver::budget::Budget;
use crate::solver::problem::{Level, Rule};
use crate::solver::state::State;

/// The diversity rules with unplaced parts, and their levels.
pub(super) fn apart(state: &State<'_>) -> impl Iterator<Item = (usize, Level)> {
    let rules = state.model.problem.rules.iter().enumerate();
    rules.filter_map(|(number, rule)| match rule {
        Rule::Apart(level, _) if state.unstarted[number] > 0 => Some((number, *level)),
        Rule::Apart(..)
        | Rule::Together(..)
        | Rule::Alone(..)
        | Rule::AtMost(..)
        | Rule::Skew(_) => None,
    })
}

/// The number of unplaced parts of a rule beyond the units that have a usable host open to one of
/// them.
pub(super) fn missing_units(
    state: &State<'_>,
    rule: usize,
    is_usable: impl Fn(usize) -> bool,
    budget: &mut Budget<'_>,
) -> usize {
    let model = state.model;
    let level = model.problem.rules[rule].level();
    let mut missing = state.unstarted[rule];
    let mut seen = vec![false; model.units.count(level)];
    for host in 0..model.problem.hosts.len() {
        if missing == 0 || budget.is_spent_after(2) {
            break;
        }
        let Some(unit) = model.units.unit(level, host).filter(|unit| !seen[*unit]) else {
            continue;
        };
        let can_be = |(kind, _): &(usize, _)| {
            !state.unplaced[*kind].is_empty() && state.domains.is_open(*kind, host)
        };
        if !is_usable(host) {
            continue;
        }
        budget.is_spent_after(model.kinds_of_rule[rule].len());
        if model.kinds_of_rule[rule].iter().any(can_be) {
            seen[unit] = true;
            missing -= 1;
        }
    }
    missing
}

/// The number of unplaced parts of a rule beyond the units of their kinds, summed over the kinds whose bundles are
/// each a part of their own.
pub(super) fn parts_without_unit(
    state: &State<'_>,
    rule: usize,
    units: impl Fn(usize) -> usize,
) -> usize {
    let parts = state.model.kinds_of_rule[rule].iter().filter(|(_, part)| part.is_none());
    parts.map(|(kind, _)| state.unplaced[*kind].len().saturating_sub(units(*kind))).sum()
}
