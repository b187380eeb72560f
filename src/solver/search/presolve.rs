//! Presolve: removes units that are too small for an affinity rule, and detects diversity rules
//! with too few units for their parts.

#![expect(clippy::indexing_slicing, reason = "kinds, rules and units are numbered densely")]

use std::collections::HashSet;

use crate::solver::budget::Budget;
use crate::solver::matching::serve;
use crate::solver::problem::{Level, Rule};
use crate::solver::state::State;

/// Rules out the racks and clusters that cannot hold all bundles of an affinity rule, for its kinds.
pub(super) fn rule_out_units(state: &mut State<'_>, budget: &mut Budget<'_>) {
    let model = state.model;
    for (number, rule) in model.problem.rules.iter().enumerate() {
        let Rule::Together(level, _) = rule else { continue };
        if *level == Level::Host {
            continue;
        }
        for unit in 0..model.units.count(*level) {
            let hosts = model.units.hosts(*level, unit);
            if budget.is_spent_after(1 + 2 * hosts.len() * model.kinds_of_rule[number].len()) {
                return;
            }
            let can_hold = can_hold(state, number, *level, hosts, budget);
            if budget.is_spent() {
                return;
            }
            if !can_hold {
                for (kind, _) in &model.kinds_of_rule[number] {
                    state.rule_out(*kind, hosts, true);
                }
            }
        }
    }
}

/// Returns whether a unit may hold all bundles of an affinity rule: by slots, by private capacity, and by the hosts
/// that diverse parts need. `true` proves nothing.
fn can_hold(
    state: &State<'_>,
    rule: usize,
    level: Level,
    hosts: &[usize],
    budget: &mut Budget<'_>,
) -> bool {
    let model = state.model;
    let bound = &model.kinds_of_rule[rule];
    let is_open = |kind: usize, host: usize| state.domains.is_open(kind, host);
    let has_slots = bound.iter().all(|(kind, _)| {
        let count = model.kinds[*kind].bundles.len();
        let open = hosts.iter().filter(|host| is_open(*kind, **host));
        let slots: usize = open.map(|host| state.domains.slots(*kind, *host)).sum();
        slots >= count && (count == 1 || !model.kinds[*kind].is_apart(level))
    });
    let has_room = (0..model.sizes.classes).all(|class| {
        let needed = bound.iter().map(|(kind, _)| {
            let kind = &model.kinds[*kind];
            u128::from(model.loads[kind.load].least_own[class]) * kind.bundles.len() as u128
        });
        budget.is_spent_after(bound.len() + hosts.len());
        needed.sum::<u128>() <= hosts.iter().map(|host| state.own_left[*host][class]).sum()
    });
    has_slots
        && has_room
        && model.problem.rules.iter().enumerate().all(|(apart, rule)| {
            let is_apart = matches!(rule, Rule::Apart(Level::Host, _));
            if !is_apart || budget.is_spent_after(4 * bound.len()) {
                return true;
            }
            let both = bound.iter().filter(|(kind, _)| {
                model.kinds[*kind].rules.iter().any(|(other, _)| *other == apart)
            });
            let kinds: Vec<usize> = both.map(|(kind, _)| *kind).collect();
            let bundles = kinds.iter().flat_map(|kind| &model.kinds[*kind].bundles);
            let rules = bundles.flat_map(|bundle| &model.bundles[*bundle].rules);
            let mut parts: Vec<usize> =
                rules.filter(|(other, _)| *other == apart).map(|(_, part)| *part).collect();
            budget.is_spent_after(4 * parts.len() + hosts.len() * kinds.len());
            parts.sort_unstable();
            parts.dedup();
            let open = hosts.iter().filter(|host| kinds.iter().any(|kind| is_open(*kind, **host)));
            parts.len() <= open.count()
        })
}

/// Returns whether the parts of each diversity rule can have a unit each, considering one rule at a time.
pub(super) fn can_be_apart(state: &State<'_>, budget: &mut Budget<'_>) -> bool {
    let rules = state.model.problem.rules.iter().enumerate();
    let mut apart = rules.filter(|(_, rule)| matches!(rule, Rule::Apart(..)));
    apart.all(|(number, rule)| match_units(state, number, rule.level(), budget))
}

/// Returns whether the parts of a rule can have a unit each: a bipartite matching, in which the parts of one kind
/// are of one sort.
fn match_units(state: &State<'_>, rule: usize, level: Level, budget: &mut Budget<'_>) -> bool {
    let model = state.model;
    let units = model.units.count(level);
    let mut named = HashSet::new();
    let (mut open, mut parts) = (Vec::new(), Vec::new());
    for (kind, part) in &model.kinds_of_rule[rule] {
        // One kind of a part represents the part, which can only be where all its kinds can be.
        if part.is_some_and(|part| !named.insert(part)) {
            continue;
        }
        if budget.is_spent_with(units / 8) || budget.is_spent_after(2 * model.problem.hosts.len()) {
            return true;
        }
        let mut of_kind = vec![false; units];
        for host in 0..model.problem.hosts.len() {
            if let Some(unit) = model.units.unit(level, host) {
                of_kind[unit] |= state.domains.is_open(*kind, host);
            }
        }
        let count = if part.is_some() { 1 } else { model.kinds[*kind].bundles.len() };
        parts.extend(std::iter::repeat_n(open.len(), count));
        open.push(of_kind);
    }
    let open_units = |kind: usize| {
        let units = open[kind].iter().enumerate();
        units.filter(|(_, is_open)| **is_open).map(|(unit, _)| unit)
    };
    serve(open_units, &parts, &vec![1; units], budget).is_some()
}
