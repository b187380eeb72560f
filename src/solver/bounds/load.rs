//! A lower bound on the load that the remaining bundles add to units: each kind alone, on the units where it adds
//! least, or [all together](joint_load).

#![expect(clippy::indexing_slicing, reason = "kinds, hosts and units are numbered densely")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::joint_load::joint_load;
use super::room::slots_by_unit;
use crate::solver::budget::Budget;
use crate::solver::state::State;

/// A lower bound on the load that the remaining bundles add to the units of one level.
#[derive(Debug, Default)]
pub(in crate::solver) struct LoadBound {
    /// For each kind, the sum over its bundles, and the addition of the last one.
    kinds: Vec<(u64, u64)>,
    /// A bound for all of them together.
    joint: u64,
}

impl LoadBound {
    /// The bound for all of them.
    pub(super) fn all(&self) -> u64 {
        self.alone().max(self.joint)
    }

    /// The bound for all of them, each kind alone.
    fn alone(&self) -> u64 {
        self.kinds.iter().map(|(sum, _)| sum).fold(0, |all, sum| all.saturating_add(*sum))
    }

    /// The bound for all but one bundle of a kind.
    pub(in crate::solver) fn without(&self, kind: usize) -> u64 {
        self.alone() - self.kinds.get(kind).map_or(0, |(_, last)| *last)
    }
}

/// The bound for one level that the policy counts.
pub(super) fn load(state: &State<'_>, level: usize, budget: &mut Budget<'_>) -> LoadBound {
    let model = state.model;
    let (counted, utilisation) = (&model.counted[level], &model.utilisation[level]);
    let mut bound = LoadBound {
        kinds: vec![(0, 0); model.kinds.len()],
        joint: joint_load(state, level, budget),
    };
    let mut slots = vec![0_usize; counted.count()];
    for (kind, left) in state.unplaced_kinds() {
        let work = model.problem.hosts.len() * (2 + utilisation.classes());
        if budget.is_spent_after(work + 4 * left * utilisation.classes()) {
            return LoadBound::default();
        }
        slots_by_unit(state, kind, |host| Some(counted.unit(host)), &mut slots);
        let additions = &model.kinds[kind].additions;
        let added = |unit: usize, times: u64| {
            let is_counted =
                |home: usize| home < model.problem.hosts.len() && counted.unit(home) == unit;
            utilisation.added((unit, state.score.used(level)), times, additions, is_counted)
        };
        let open = slots.iter().enumerate().filter(|(_, slots)| **slots > 0);
        let mut next: BinaryHeap<Reverse<(u64, usize, usize)>> =
            open.map(|(unit, _)| Reverse((added(unit, 0), unit, 1))).collect();
        let of_kind = &mut bound.kinds[kind];
        for _ in 0..left {
            let Some(Reverse((rise, unit, times))) = next.pop() else { break };
            *of_kind = (of_kind.0.saturating_add(rise), rise);
            if times < slots[unit] {
                next.push(Reverse((added(unit, times as u64), unit, times + 1)));
            }
        }
    }
    bound
}
