//! Affinity in ruin and recreate: a step that moves the bundles of a rule to another rack or cluster.
//!
//! Other steps seldom do: they would have to remove all of these bundles at once, and the first one would have to
//! choose the other unit although a host of its old one may be better for it.

#![expect(clippy::indexing_slicing, reason = "bundles, rules and hosts are numbered densely")]

use super::random::Random;
use crate::solver::budget::Budget;
use crate::solver::model::Model;
use crate::solver::problem::{Level, Rule};
use crate::solver::state::State;

/// Number of steps, divided by the number of units, between two that move a rule: with many units, too few of them
/// would be tried otherwise; with few units, other steps make better use of the time.
const STEPS_FOR_UNIT: u64 = 4096;
const STEPS_MIN: u64 = 4;
const STEPS_MAX: u64 = 64;

/// The affinity rules of racks and clusters.
pub(super) struct AffinityRules(Vec<usize>);

/// A rule, and a unit of its level.
pub(super) struct UnitForRule {
    rule: usize,
    level: Level,
    unit: usize,
}

impl AffinityRules {
    pub(super) fn of(model: &Model<'_>) -> Self {
        let rules = model.problem.rules.iter().enumerate();
        let is_of_units =
            |rule: &Rule| matches!(rule, Rule::Together(level, _) if *level > Level::Host);
        Self(rules.filter(|(_, rule)| is_of_units(rule)).map(|(rule, _)| rule).collect())
    }

    /// In some steps, one of the rules and any unit for it, possibly one where it does not fit.
    pub(super) fn unit_for_one(
        &self,
        state: &State<'_>,
        random: &mut Random,
    ) -> Option<UnitForRule> {
        if self.0.is_empty() {
            return None;
        }
        let rule = self.0[random.below(self.0.len() as u64)];
        let level = state.model.problem.rules[rule].level();
        let units = (state.model.units.count(level) as u64).max(1);
        let steps = (STEPS_FOR_UNIT / units).clamp(STEPS_MIN, STEPS_MAX);
        let is_moved = random.below(steps) == 0;
        is_moved.then(|| UnitForRule { rule, level, unit: random.below(units) })
    }
}

impl UnitForRule {
    /// Returns whether the rule binds a bundle.
    pub(super) fn binds(&self, model: &Model<'_>, bundle: usize) -> bool {
        model.bundles[bundle].rules.iter().any(|(rule, _)| *rule == self.rule)
    }

    /// The hosts of the unit, in the order of their fit.
    pub(super) fn hosts(&self, model: &Model<'_>, budget: &mut Budget<'_>) -> Vec<usize> {
        let mut hosts = model.units.hosts(self.level, self.unit).to_vec();
        hosts.sort_unstable_by_key(|host| model.fit_costs[*host]);
        budget.is_spent_after(8 * hosts.len());
        hosts
    }

    /// The bundles to remove: all bundles of the rule, up to `others_max` other bundles in the unit, and the
    /// bundles without a host.
    pub(super) fn part(
        &self,
        state: &State<'_>,
        others_max: usize,
        random: &mut Random,
        budget: &mut Budget<'_>,
    ) -> Vec<usize> {
        let model = state.model;
        budget.is_spent_after(8 * state.positions.len());
        let (mut part, mut in_unit) = (Vec::new(), Vec::new());
        for (bundle, position) in state.positions.iter().enumerate() {
            let unit = position.and_then(|(host, _)| model.units.unit(self.level, host));
            if position.is_none() || self.binds(model, bundle) {
                part.push(bundle);
            } else if unit == Some(self.unit) {
                in_unit.push(bundle);
            }
        }
        random.keep_some(&mut in_unit, others_max);
        part.extend(in_unit);
        part
    }
}
