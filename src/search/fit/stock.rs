//! The capacity available to trees: a *pool* is the free capacity of one class at one provider.

#![expect(
    clippy::indexing_slicing,
    reason = "pools, options, draws and trees are numbered densely"
)]

use std::collections::HashMap;
use std::ops::Range;

use super::super::query::Query;
use super::offers::Offer;
use crate::model::ClassId;
use crate::world::World;

/// A pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    /// The free amount before any claim.
    pub(super) free: i64,
    /// The remaining amount.
    pub(super) left: i64,
    /// The maximum amount for one consumer.
    pub(super) max_unit: i64,
}

/// The amount that an option takes of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    pub(super) pool: usize,
    pub(super) units: i64,
}

/// An option for a part of the request in a tree.
#[derive(Clone, Debug)]
pub(super) struct Supply {
    /// The provider.
    pub(super) slot: u32,
    /// The root of its tree.
    pub(super) root: u32,
    /// The clauses of the unsuffixed group's required traits that it meets: a bit for each of the
    /// first 64.
    pub(super) meets: u64,
    /// Whether other trees may draw on it.
    pub(super) is_shared: bool,
    draws: Range<usize>,
}

/// The pools and options of some trees.
#[derive(Debug, Default)]
pub(super) struct Stock {
    pools: Vec<Pool>,
    numbers: HashMap<(u32, ClassId), usize>,
    supplies: Vec<Supply>,
    draws: Vec<Draw>,
    /// For each tree, its options part by part.
    trees: Vec<Vec<Range<usize>>>,
    /// Number of options of trees at each sharing provider.
    users: HashMap<u32, usize>,
}

impl Stock {
    /// Removes all trees.
    pub(super) fn clear(&mut self) {
        self.pools.clear();
        self.numbers.clear();
        self.supplies.clear();
        self.draws.clear();
        self.trees.clear();
        self.users.clear();
    }

    /// Adds a tree, and returns its number.
    pub(super) fn add(&mut self, world: &World, query: &Query, offer: &Offer<'_>) -> usize {
        let mut parts = Vec::with_capacity(offer.ends.len());
        let mut from = 0;
        for (part, &end) in query.parts.iter().zip(offer.ends) {
            let first = self.supplies.len();
            for choice in &offer.choices[from..end] {
                let begin = self.draws.len();
                for amount in &part.amounts {
                    let next = self.pools.len();
                    let pool = *self.numbers.entry((choice.slot, amount.class)).or_insert(next);
                    if pool == next {
                        let entry = amount.column.get(choice.slot);
                        let (free, max_unit) =
                            entry.map_or((0, 0), |it| (it.free().max(0), it.max_unit()));
                        self.pools.push(Pool { free, left: free, max_unit });
                    }
                    self.draws.push(Draw { pool, units: amount.units.max(1) });
                }
                let is_shared = query.sharing.contains(choice.slot);
                if is_shared {
                    *self.users.entry(choice.slot).or_insert(0) += 1;
                }
                self.supplies.push(Supply {
                    slot: choice.slot,
                    root: world.place(choice.slot).root,
                    meets: choice.meets,
                    is_shared,
                    draws: begin..self.draws.len(),
                });
            }
            parts.push(first..self.supplies.len());
            from = end;
        }
        self.trees.push(parts);
        self.trees.len() - 1
    }

    /// The options of a tree, part by part.
    pub(super) fn parts(&self, tree: usize) -> impl ExactSizeIterator<Item = &[Supply]> + Clone {
        self.trees[tree].iter().map(|part| &self.supplies[part.clone()])
    }

    /// The options for a part.
    pub(super) fn part(&self, tree: usize, part: usize) -> &[Supply] {
        &self.supplies[self.trees[tree][part].clone()]
    }

    /// The draws of an option.
    pub(super) fn draws(&self, supply: &Supply) -> &[Draw] {
        &self.draws[supply.draws.clone()]
    }

    /// A pool by its number.
    pub(super) fn pool(&self, pool: usize) -> Pool {
        self.pools[pool]
    }

    /// The number of pools.
    pub(super) fn pool_count(&self) -> usize {
        self.pools.len()
    }

    /// Number of options of trees at the provider of an option.
    pub(super) fn users(&self, supply: &Supply) -> usize {
        self.users.get(&supply.slot).copied().unwrap_or(0)
    }

    /// Number of requests for which the free capacity suffices; `None` if an option takes nothing.
    pub(super) fn times(&self, supply: &Supply) -> Option<u64> {
        let times =
            |draw: &Draw| self.pools[draw.pool].free.unsigned_abs() / draw.units.unsigned_abs();
        self.draws(supply).iter().map(times).min()
    }

    /// The same for the remaining capacity.
    pub(super) fn times_left(&self, supply: &Supply) -> Option<u64> {
        let times = |draw: &Draw| {
            self.pools[draw.pool].left.max(0).unsigned_abs() / draw.units.unsigned_abs()
        };
        self.draws(supply).iter().map(times).min()
    }

    /// Takes from a pool.
    pub(super) fn take(&mut self, pool: usize, units: i64) {
        self.pools[pool].left -= units;
    }

    /// Returns everything taken from the pools of a tree.
    pub(super) fn refill(&mut self, tree: usize) {
        for part in &self.trees[tree] {
            for supply in &self.supplies[part.clone()] {
                for draw in &self.draws[supply.draws.clone()] {
                    let pool = &mut self.pools[draw.pool];
                    pool.left = pool.free;
                }
            }
        }
    }
}
