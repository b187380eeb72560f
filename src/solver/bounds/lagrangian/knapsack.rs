//! The most profitable set of bundles that may fit on one host: a bounded knapsack with several
//! resource classes, by depth-first search.

#![expect(clippy::indexing_slicing, reason = "items and classes are numbered densely")]

use std::cmp::Reverse;

use crate::solver::budget::Budget;

/// Maximum number of steps of one search, after which the bounds of the remainder count as reached.
const STEPS_MAX: usize = 4096;
/// Maximum number of items of which different numbers are tried.
const DEPTH_MAX: usize = 256;
/// The share of the entire free capacity.
const SHARE: u64 = 1 << 10;
/// Binary digits after the point of profits per unit of a class.
const FRACTION: u32 = 24;

/// Bundles of one kind that could be placed on the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) kind: usize,
    /// Profit of one bundle, greater than 0.
    pub(super) profit: u64,
    /// Maximum number of bundles.
    pub(super) most: u64,
    /// The diversity rules of hosts that bind them, as bits: only one bundle of each rule fits.
    pub(super) apart: u64,
}

/// The working memory of the searches, which is reused.
#[derive(Debug, Default)]
pub(super) struct Knapsack {
    classes: usize,
    pub(super) items: Vec<Item>,
    /// The demand of one bundle of each item, class by class.
    pub(super) needs: Vec<u64>,
    /// The free capacity of each class.
    pub(super) free: Vec<u64>,
    order: Vec<usize>,
    /// For each position in the order, and each class: the highest profit per unit of the class of the items from
    /// there on; the maximum if one of them needs none of it.
    ratios: Vec<u64>,
    /// For each position, the total profit of the items from there on.
    sums: Vec<u64>,
    counts: Vec<u64>,
    steps: usize,
    best: u64,
    /// For each item, its number of bundles in the best set.
    best_counts: Vec<u64>,
}

impl Knapsack {
    /// Removes all items, for a host with the given number of classes.
    pub(super) fn clear(&mut self, classes: usize) {
        self.classes = classes;
        self.items.clear();
        self.needs.clear();
        self.free.clear();
    }

    /// The kinds in the best set, each with its number of bundles.
    pub(super) fn taken(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.items.iter().zip(&self.best_counts).filter(|(_, count)| **count > 0);
        counts.map(|(item, count)| (item.kind, *count))
    }

    /// An upper bound on the profit of any set that fits. It is exact unless the search takes too long.
    pub(super) fn solve(&mut self, budget: &mut Budget<'_>) -> u64 {
        self.prepare();
        self.search(0, 0, 0);
        let classes = self.classes;
        budget.is_spent_after(8 * classes * self.items.len() + (8 + 4 * classes) * self.steps);
        self.best
    }

    /// Orders the items by their profit for their share of the free capacity, and computes the tables of the bound.
    fn prepare(&mut self) {
        let (count, classes) = (self.items.len(), self.classes);
        self.order.clear();
        self.order.extend(0..count);
        let (items, needs, free) = (&self.items, &self.needs, &self.free);
        let weight = |item: usize| -> u64 {
            let shares = (0..classes).filter(|class| free[*class] > 0);
            let share =
                |class: usize| needs[item * classes + class].saturating_mul(SHARE) / free[class];
            shares.map(share).sum::<u64>().max(1)
        };
        let density =
            |item: &usize| Reverse(items[*item].profit.saturating_mul(SHARE) / weight(*item));
        self.order.sort_by_cached_key(density);
        self.ratios.clear();
        self.ratios.resize((count + 1) * classes, 0);
        self.sums.clear();
        self.sums.resize(count + 1, 0);
        for at in (0..count).rev() {
            let item = self.order[at];
            let all = items[item].profit.saturating_mul(items[item].most);
            self.sums[at] = self.sums[at + 1].saturating_add(all);
            for class in 0..classes {
                let need = needs[item * classes + class];
                let scaled = items[item].profit.saturating_mul(1 << FRACTION);
                // An item that needs none of the class is not limited by it.
                let own = scaled.checked_div(need).map_or(u64::MAX, |it| it.saturating_add(1));
                self.ratios[at * classes + class] =
                    own.max(self.ratios[(at + 1) * classes + class]);
            }
        }
        self.counts.clear();
        self.counts.resize(count, 0);
        self.best_counts.clear();
        self.best_counts.resize(count, 0);
        self.best = 0;
        self.steps = 0;
    }

    /// Tries each number of the item at a position, the largest first.
    fn search(&mut self, at: usize, profit: u64, apart: u64) {
        self.steps += 1;
        if profit > self.best {
            self.best = profit;
            self.best_counts.copy_from_slice(&self.counts);
        }
        if at == self.items.len() {
            return;
        }
        let bound = profit + self.bound(at);
        if bound <= self.best {
            return;
        }
        if self.steps > STEPS_MAX || at == DEPTH_MAX {
            self.best = bound;
            return;
        }
        let classes = self.classes;
        let item = self.order[at];
        let Item { profit: each, most, apart: bits, .. } = self.items[item];
        let fits = |class: usize| {
            self.free[class].checked_div(self.needs[item * classes + class]).unwrap_or(u64::MAX)
        };
        let fit = (0..classes).map(fits).min().unwrap_or(u64::MAX);
        let most = if bits & apart == 0 { most.min(fit) } else { 0 };
        for class in 0..classes {
            self.free[class] -= most * self.needs[item * classes + class];
        }
        for count in (0..=most).rev() {
            self.counts[item] = count;
            let taken = if count > 0 { bits } else { 0 };
            self.search(at + 1, profit + count * each, apart | taken);
            if count > 0 {
                for class in 0..classes {
                    self.free[class] += self.needs[item * classes + class];
                }
            }
        }
        self.counts[item] = 0;
    }

    /// An upper bound on the profit of the items from a position on, by the class that limits them most.
    fn bound(&self, at: usize) -> u64 {
        let ratios = &self.ratios[at * self.classes..];
        let by_class = self.free.iter().zip(ratios).filter(|(_, ratio)| **ratio < u64::MAX);
        let by_class = by_class.map(|(free, ratio)| {
            u64::try_from((u128::from(*free) * u128::from(*ratio)) >> FRACTION).unwrap_or(u64::MAX)
        });
        by_class.min().unwrap_or(u64::MAX).min(self.sums[at])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Item, Knapsack};
    use crate::solver::budget::Budget;

    /// The highest profit of any set, by exhaustive search.
    fn brute_force(items: &[(u64, u64, u64, [u64; 2])], free: [u64; 2], apart: u64) -> u64 {
        let Some(((profit, most, bits, needs), others)) = items.split_first() else { return 0 };
        let counts = 0..=*most;
        let fits = |count: &u64| {
            let is_room = (0..2).all(|class| count * needs[class] <= free[class]);
            is_room && (*count == 0 || bits & apart == 0 && (*bits == 0 || *count == 1))
        };
        let with = |count: u64| {
            let left = [free[0] - count * needs[0], free[1] - count * needs[1]];
            let bits = if count > 0 { *bits } else { 0 };
            count * profit + brute_force(others, left, apart | bits)
        };
        counts.filter(fits).map(with).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn it_is_the_best_of_all_sets(
            items in prop::collection::vec((1_u64..50, 1_u64..4, 0_u64..4, [0_u64..6, 0_u64..6]), 0..6),
            free in [0_u64..15, 0_u64..15],
        ) {
            // A host can have only one of the bundles that are apart.
            let items: Vec<_> = items
                .into_iter()
                .map(|(profit, most, bits, needs)| (profit, if bits > 0 { 1 } else { most }, bits, needs))
                .collect();
            let mut knapsack = Knapsack::default();
            knapsack.clear(2);
            for (kind, (profit, most, apart, needs)) in items.iter().enumerate() {
                knapsack.items.push(Item { kind, profit: *profit, most: *most, apart: *apart });
                knapsack.needs.extend(needs);
            }
            knapsack.free.extend(free);
            let mut never = || false;
            let found = knapsack.solve(&mut Budget::new(&mut never));
            prop_assert_eq!(found, brute_force(&items, free, 0));
            let taken: u64 = knapsack.taken().map(|(kind, count)| items[kind].0 * count).sum();
            prop_assert_eq!(taken, found);
        }
    }
}
