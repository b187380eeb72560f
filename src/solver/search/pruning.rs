//! Pruning: determines which hosts for one bundle can still lead to a placement that is cheaper than the best known
//! one.
//!
//! The bound of the state is computed once. For each candidate host, only the cost that the host adds is combined
//! with the bound of the other bundles.

use std::cmp::Ordering;

use crate::solver::bounds::{Bound, SumBounds};
use crate::solver::problem::Goal;
use crate::solver::solution::{Cost, Counts};
use crate::solver::state::{Added, State};

/// The bound of a state, prepared for adding one bundle on any host.
#[derive(Debug)]
pub(super) struct Pruning {
    goal: Goal,
    best: Cost,
    partial_cost: Cost,
    /// The bound of the state.
    least: Cost,
    /// The bound on moves without those of the bundle.
    moved: u64,
    /// The bound on the violations that the other bundles add.
    violations: u64,
    /// The bounds on the fit that the other bundles add, if the components before it meet their bounds, and on the
    /// loads.
    fit: u64,
    loads: [u64; 2],
}

impl Pruning {
    pub(super) fn new(state: &State<'_>, bound: Bound, best: Cost, kind: usize) -> Self {
        let Bound { least, soft_rules, rest } = bound;
        let (fit, loads) = match rest {
            SumBounds::Unknown => (0, [0; 2]),
            SumBounds::Fit(fit) => (fit.without(kind), [0; 2]),
            SumBounds::Load(levels) => {
                let of_level = |level: usize| levels.get(level).map_or(0, |it| it.without(kind));
                (0, [of_level(0), of_level(1)])
            }
        };
        Self {
            goal: state.model.problem.policy.goal,
            best,
            partial_cost: state.partial_cost(),
            // Pricing may have closed the hosts on which servers of the kind stay since the bound was computed.
            moved: least.moved.saturating_sub(state.fewest_moves(kind)),
            violations: soft_rules.map_or(0, |soft_rules| soft_rules.without(kind)),
            least,
            fit,
            loads,
        }
    }

    /// Returns whether a placement cheaper than the best one may exist with the bundle on a host that adds this
    /// cost.
    pub(super) fn allows(&self, added: &Added) -> bool {
        let (best, least, so_far) = (&self.best, &self.least, &self.partial_cost);
        let [load, host_load] = self.loads;
        let moved = self.moved + added.moved;
        let (first, second) = match self.goal {
            Goal::Pack => (
                Step::number(so_far.units + added.first, least.units, best.units),
                Step::number(so_far.new_hosts + added.second, least.new_hosts, best.new_hosts),
            ),
            Goal::Spread => (
                Step::counts(added.first, &least.per_unit, &best.per_unit),
                Step::counts(added.second, &least.per_host, &best.per_host),
            ),
            Goal::Balance => (
                Step::sum([so_far.load, load, added.first], least.load, best.load),
                Step::sum(
                    [so_far.host_load, host_load, added.second],
                    least.host_load,
                    best.host_load,
                ),
            ),
        };
        // A component of the bound holds only if the components before it are met exactly.
        let mut is_met = true;
        let violations = so_far.violations + self.violations + added.violations;
        let violations = Step::number(violations, least.violations, best.violations);
        for step in [Step::number(moved, least.moved, best.moved), violations, first, second] {
            match step.compared(is_met) {
                Ordering::Less => return true,
                Ordering::Greater => return false,
                Ordering::Equal => {}
            }
            is_met = is_met && step.is_met;
        }
        let fit = so_far.fit + added.fit;
        let fit = if is_met { (fit + self.fit).max(least.fit) } else { fit };
        fit < best.fit
    }
}

/// A component of the least cost with the bundle on a host.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The comparison of the placed bundles with the best.
    placed: Ordering,
    /// The comparison of the bound with the best.
    least: Ordering,
    /// Whether the placed bundles do not exceed the bound.
    is_met: bool,
}

impl Step {
    fn number(placed: u64, least: u64, best: u64) -> Self {
        Self { placed: placed.cmp(&best), least: least.cmp(&best), is_met: placed <= least }
    }

    fn sum(placed: [u64; 3], least: u64, best: u64) -> Self {
        Self::number(placed.into_iter().fold(0, u64::saturating_add), least, best)
    }

    /// Compares counts of which one is known.
    fn counts(one: u64, least: &Counts, best: &Counts) -> Self {
        Self {
            placed: Counts::one_cmp(one, best),
            least: least.cmp(best),
            is_met: Counts::one_cmp(one, least).is_le(),
        }
    }

    /// The comparison of the component with the best.
    fn compared(self, is_bound: bool) -> Ordering {
        if is_bound { self.placed.max(self.least) } else { self.placed }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::solver::bounds::{Limits, bound};
    use crate::solver::model::Model;
    use crate::solver::{Budget, Draws, Host, PlacementProblem, Pool, Server, Supply};

    /// If the host on which a server stays is closed after the bound was computed, a placement without moves is better
    /// than the server on any other host.
    #[test]
    fn a_server_whose_host_is_closed_moves() {
        let ways = (0..2).map(|host| (host, Supply::One(Draws::from([(host, 1)])))).collect();
        let server = Server {
            ways: Arc::new(ways),
            allowed_hosts: vec![true; 2].into(),
            current_host: Some(0),
            ..Server::default()
        };
        let problem = PlacementProblem {
            hosts: vec![Host { free: vec![1], ..Host::default() }; 2],
            pools: vec![Pool { class: 0, free: 1 }; 2],
            servers: vec![server],
            ..PlacementProblem::default()
        };
        let mut never = || false;
        let mut budget = Budget::new(&mut never);
        let model = Model::of(&problem, &mut budget).unwrap();
        let mut state = State::new(&model, &mut budget);
        let limits = Limits::of(&state, &mut budget);
        let bound = bound(&state, &limits, None, &mut budget).unwrap();
        let best = Cost { fit: u64::MAX, ..bound.least.clone() };
        state.rule_out(0, &[0], true);
        let pruning = Pruning::new(&state, bound, best, 0);
        assert!(!pruning.allows(&state.added(0, 1)));
    }
}
