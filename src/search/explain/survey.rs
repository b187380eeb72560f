//! Counts of the hosts examined so far.

use std::collections::HashMap;

use super::super::funnel::{Condition, Failing, HostChecks, Tally};
use super::conflict::Mask;
use crate::world::Provider;
use crate::world::set::Words;

/// Maximum number of conditions, including steps of combining, that can be explained.
pub const CONDITIONS_MAX: usize = Mask::BITS as usize;

/// The hosts that were examined so far.
pub(super) struct Survey {
    pub(super) tally: Tally<Condition>,
    /// Number of hosts by the set of conditions that they fail.
    pub(super) by_failing: HashMap<Mask, usize>,
}

impl Survey {
    /// Creates an empty survey that keeps at most `near_misses_max` near misses.
    pub(super) fn new(conditions: &[Condition], near_misses_max: usize) -> Self {
        let tally = Tally::new(conditions.to_vec(), near_misses_max);
        Self { tally, by_failing: HashMap::new() }
    }

    /// Adds one examined host.
    pub(super) fn add(
        &mut self,
        root: &Provider<'_>,
        failing: &Failing,
        checks: &mut HostChecks<'_>,
    ) {
        let dispensable = checks.dispensable(root, failing);
        self.tally.add(root.id(), root.name(), failing, &dispensable);
        let mask = failing.conditions.iter().fold(0, |mask, it| mask | bit(it.condition));
        self.add_failing(mask, 1);
    }

    /// Counts hosts that fail the same conditions.
    pub(super) fn add_failing(&mut self, failing: Mask, hosts: usize) {
        if hosts > 0 {
            *self.by_failing.entry(failing).or_insert(0) += hosts;
        }
    }
}

/// The bit of a condition.
pub(super) fn bit(position: usize) -> Mask {
    // There are at most as many conditions as bits.
    1 << (position % CONDITIONS_MAX)
}

/// The number of slots in the words of a block.
pub(super) fn count_ones(words: Words) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}
