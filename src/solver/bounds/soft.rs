//! A lower bound on the cost of the soft rules.

#![expect(
    clippy::indexing_slicing,
    reason = "kinds, hosts, units and soft rules are numbered densely"
)]

use super::levelled::{levelled, piled};
use super::room::slots_by_unit;
use crate::solver::budget::Budget;
use crate::solver::problem::{SoftRuleKind, pairs};
use crate::solver::state::State;

/// A lower bound on the cost of the soft rules, including the placed servers.
#[derive(Debug)]
pub(in crate::solver) struct SoftBound {
    placed: u64,
    /// For each kind, the number of unplaced bundles, and the minimum cost of one together with the placed servers.
    kinds: Vec<(u64, u64)>,
    /// The bound that considers each soft rule alone.
    alone: u64,
}

impl SoftBound {
    /// The bound for all servers.
    pub(super) fn least(&self) -> u64 {
        self.alone.max(self.placed + self.others())
    }

    /// The bound on the additions of the unplaced bundles except one of a kind.
    pub(in crate::solver) fn without(&self, kind: usize) -> u64 {
        self.others() - self.kinds.get(kind).map_or(0, |(_, least)| *least)
    }

    fn others(&self) -> u64 {
        self.kinds.iter().map(|(bundles, least)| bundles * least).sum()
    }

    /// `None` if the servers of a soft rule have no room.
    pub(super) fn of(state: &State<'_>, budget: &mut Budget<'_>) -> Option<Self> {
        let model = state.model;
        let mut bound = Self { placed: state.soft_rules.cost, kinds: Vec::new(), alone: 0 };
        if model.problem.soft_rules.is_empty() {
            return Some(bound);
        }
        bound.kinds = vec![(0, 0); model.kinds.len()];
        for (kind, left) in state.unplaced_kinds() {
            let soft_rules = model.kinds[kind].soft_rules.len();
            if soft_rules == 0 {
                continue;
            }
            if budget.is_spent_after(model.problem.hosts.len() * 4 * soft_rules) {
                return Some(bound);
            }
            let hosts = 0..model.problem.hosts.len();
            let open = hosts.filter(|host| state.domains.is_open(kind, *host));
            let least = open.map(|host| state.added_violations(kind, host)).min();
            bound.kinds[kind] = (left as u64, least.unwrap_or(0));
        }
        for soft in 0..model.problem.soft_rules.len() {
            bound.alone += alone(state, soft, budget)?;
        }
        Some(bound)
    }
}

/// The minimum cost of a soft rule, considered alone.
fn alone(state: &State<'_>, soft: usize, budget: &mut Budget<'_>) -> Option<u64> {
    let model = state.model;
    let it = &model.problem.soft_rules[soft];
    let is_single = it.parts.iter().all(|part| part.len() == 1);
    if it.kind == SoftRuleKind::Apart && !is_single {
        return Some(0);
    }
    let units = model.soft_units(soft);
    let mut counts: Vec<(u64, u64)> =
        (0..units.count()).map(|unit| (state.soft_rules.servers(soft, unit), 0)).collect();
    let mut slots = vec![0_usize; counts.len()];
    let mut left = 0;
    for (kind, bundles) in state.unplaced_kinds() {
        let members = model.kinds[kind].soft_rules.iter().find(|(other, _)| *other == soft);
        let Some((_, members)) = members else { continue };
        if budget.is_spent_after(4 * model.problem.hosts.len()) {
            return Some(0);
        }
        left += bundles as u64 * members;
        slots_by_unit(state, kind, |host| Some(units.unit(host)), &mut slots);
        for ((_, room), slots) in counts.iter_mut().zip(&slots) {
            *room += (*slots).min(bundles) as u64 * members;
        }
    }
    if budget.is_spent_after(64 * counts.len()) {
        return Some(0);
    }
    let placed: u64 = counts.iter().map(|(count, _)| count).sum();
    let broken = match it.kind {
        SoftRuleKind::Together => {
            let together = piled(&counts, placed + left)?.into_iter().map(pairs);
            pairs(placed + left) - together.sum::<u64>()
        }
        SoftRuleKind::Apart => levelled(&counts, left)?.into_iter().map(pairs).sum(),
    };
    Some(broken * u64::from(it.weight))
}
