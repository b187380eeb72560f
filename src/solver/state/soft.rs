//! The cost of the soft rules in a partial placement.

#![expect(clippy::indexing_slicing, reason = "bundles and soft rules are numbered densely")]

use std::collections::HashMap;

use crate::solver::model::Model;
use crate::solver::problem::SoftRuleKind;

/// The servers of each soft rule in each unit, and the cost of their pairs.
#[derive(Clone, Debug)]
pub(in crate::solver) struct SoftScore<'p> {
    model: &'p Model<'p>,
    counts: Vec<SoftRuleCounts>,
    /// The cost of the placed servers.
    pub(in crate::solver) cost: u64,
}

/// The placed servers of one soft rule.
#[derive(Clone, Debug, Default)]
struct SoftRuleCounts {
    all: u64,
    in_unit: HashMap<usize, u64>,
    /// By unit and part.
    of_part: HashMap<(usize, usize), u64>,
}

impl<'p> SoftScore<'p> {
    pub(super) fn new(model: &'p Model<'p>) -> Self {
        let counts = vec![SoftRuleCounts::default(); model.problem.soft_rules.len()];
        Self { model, counts, cost: 0 }
    }

    /// The placed servers of a soft rule, and those in a unit.
    pub(in crate::solver) fn servers(&self, soft: usize, unit: usize) -> u64 {
        self.counts[soft].in_unit.get(&unit).copied().unwrap_or(0)
    }

    /// The cost of an unplaced bundle on a host, together with the placed ones.
    pub(in crate::solver) fn added(&self, bundle: usize, host: usize) -> u64 {
        let model = self.model;
        let soft_rules = &model.bundles[bundle].soft_rules;
        let mut cost = 0;
        for (nth, (soft, part, members)) in soft_rules.iter().enumerate() {
            let it = &model.problem.soft_rules[*soft];
            let unit = model.soft_units(*soft).unit(host);
            let here = self.servers(*soft, unit);
            let counts = &self.counts[*soft];
            let others = match it.kind {
                SoftRuleKind::Together => counts.all - here,
                SoftRuleKind::Apart => {
                    let same = counts.of_part.get(&(unit, *part)).copied().unwrap_or(0);
                    let before = soft_rules[..nth].iter().filter(|(other, ..)| other == soft);
                    here - same + before.map(|(_, _, members)| members).sum::<u64>()
                }
            };
            cost += others * members * u64::from(it.weight);
        }
        cost
    }

    /// Adds or removes a bundle on a host.
    pub(super) fn change(&mut self, bundle: usize, host: usize, is_in: bool) {
        let model = self.model;
        if is_in {
            self.cost += self.added(bundle, host);
        }
        for (soft, part, members) in &model.bundles[bundle].soft_rules {
            let unit = model.soft_units(*soft).unit(host);
            let it = &mut self.counts[*soft];
            let of_part = it.of_part.entry((unit, *part)).or_insert(0);
            let in_unit = it.in_unit.entry(unit).or_insert(0);
            for count in [&mut it.all, in_unit, of_part] {
                *count = if is_in { *count + members } else { *count - members };
            }
        }
        if !is_in {
            self.cost -= self.added(bundle, host);
        }
    }
}
