//! Claims candidates of a tree until none is left: a lower bound of the requests that fit.

#![expect(clippy::indexing_slicing, reason = "parts, options and pools are numbered densely")]

use crate::search::query::QueryInWorld;
use std::cmp::Reverse;

use super::super::query::Query;
use super::stock::{Stock, Supply};

/// Maximum work to find one candidate, in options tried.
const TRIES_MAX: usize = 4096;
/// Maximum work for one tree in one order, in numbers read.
const TREE_WORK_MAX: usize = 3_200_000;
/// Numbers read to try an option, apart from those for the options chosen for other parts.
const TRY_WORK: usize = 8;

/// The order in which options are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Most remaining capacity first, so that a limit per consumer at one provider strands nothing.
    Spread,
    /// Least remaining capacity first, so that large pieces stay in one piece.
    Fill,
}

impl Order {
    /// All orders.
    pub(super) const ALL: [Self; 2] = [Self::Spread, Self::Fill];
}

/// Finds candidates. It keeps its buffers from one tree to the next.
#[derive(Debug, Default)]
pub(super) struct Packer {
    /// For each part, in the order of assignment: its number, and its options in the order in which they are tried.
    levels: Vec<(usize, Vec<usize>)>,
    /// For each level, the position of the next option.
    next: Vec<usize>,
    /// For each part, the option chosen.
    picks: Vec<usize>,
    /// For each pool, the amount that the candidate takes.
    taken: Vec<i64>,
    /// The work since the last call of [`take_work`](Self::take_work), in numbers read.
    work: usize,
    /// The work at which the tree is abandoned.
    work_max: usize,
    /// The numbers read to try an option.
    try_work: usize,
    /// Whether a search for a candidate in the current tree was abandoned.
    gave_up: bool,
}

impl Packer {
    /// Returns the work since the last call, in numbers read.
    pub(super) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// Returns whether the last tree may have candidates that were not found.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Claims candidates of a tree until none is found. Returns their number.
    pub(super) fn pack(
        &mut self,
        stock: &mut Stock,
        context: QueryInWorld<'_>,
        tree: usize,
        order: Order,
    ) -> u64 {
        let query = context.query;
        if query.parts.iter().all(|part| part.amounts.is_empty()) {
            return u64::MAX;
        }
        self.taken.resize(stock.pool_count().max(self.taken.len()), 0);
        let is_simple = query.contended.is_empty() && !query.keeps_apart();
        self.try_work = try_work(query);
        self.work_max = self.work.saturating_add(TREE_WORK_MAX);
        let mut number: u64 = 0;
        self.gave_up = false;
        while self.work < self.work_max {
            self.arrange(stock, query, tree, order);
            if !self.find(stock, context, tree) {
                break;
            }
            let most = self.copies(stock, tree);
            // Where parts compete, other candidates may be better once some are claimed.
            let copies = if is_simple { most } else { (most / 4).max(1) };
            self.claim(stock, tree, copies);
            number = number.saturating_add(copies.unsigned_abs());
        }
        number
    }

    /// Orders parts and options.
    fn arrange(&mut self, stock: &Stock, query: &Query, tree: usize, order: Order) {
        let count = query.parts.len();
        self.levels.resize_with(count, Default::default);
        for (part, (number, options)) in self.levels.iter_mut().enumerate() {
            *number = part;
            let supplies = stock.part(tree, part);
            options.clear();
            options.extend(0..supplies.len());
            options.sort_by_cached_key(|option| {
                let supply = &supplies[*option];
                let times = stock.times_left(supply);
                let by_times = match order {
                    Order::Spread => (Reverse(times), None),
                    Order::Fill => (Reverse(None), times),
                };
                let users = if supply.is_shared { 1 + stock.users(supply) } else { 0 };
                (users, Reverse(supply.meets.count_ones()), by_times)
            });
            self.work += 2 * supplies.len();
        }
        self.levels.sort_by_key(|(part, options)| (options.len(), *part));
        self.next.clear();
        self.next.resize(count, 0);
        self.picks.clear();
        self.picks.resize(count, usize::MAX);
    }

    /// Finds a candidate. Its draws are in `taken`.
    fn find(&mut self, stock: &Stock, context: QueryInWorld<'_>, tree: usize) -> bool {
        let mut depth = 0;
        let mut tries = 0;
        loop {
            if depth == self.levels.len() {
                if self.has_required_traits(stock, context, tree) {
                    return true;
                }
                depth = self.step_back(stock, tree, depth);
                continue;
            }
            let (part, options) = &self.levels[depth];
            let (part, at) = (*part, self.next[depth]);
            tries += 1;
            self.work += self.try_work;
            let is_over = tries >= TRIES_MAX || self.work >= self.work_max;
            let Some(&option) = options.get(at).filter(|_| !is_over) else {
                if depth == 0 || is_over {
                    self.gave_up |= is_over;
                    while depth > 0 {
                        depth = self.step_back(stock, tree, depth);
                    }
                    return false;
                }
                self.next[depth] = 0;
                depth = self.step_back(stock, tree, depth);
                continue;
            };
            self.next[depth] += 1;
            if self.may_take(stock, context, (tree, part), option) {
                self.picks[part] = option;
                for draw in stock.draws(&stock.part(tree, part)[option]) {
                    self.taken[draw.pool] += draw.units;
                }
                depth += 1;
            }
        }
    }

    /// Undoes the last choice, and returns its level.
    fn step_back(&mut self, stock: &Stock, tree: usize, depth: usize) -> usize {
        let Some(depth) = depth.checked_sub(1) else { return 0 };
        let part = self.levels[depth].0;
        for draw in stock.draws(&stock.part(tree, part)[self.picks[part]]) {
            self.taken[draw.pool] -= draw.units;
        }
        self.picks[part] = usize::MAX;
        depth
    }

    /// The options chosen so far, with their parts.
    fn picked<'s>(
        &'s self,
        stock: &'s Stock,
        tree: usize,
    ) -> impl Iterator<Item = (usize, &'s Supply)> {
        let picks = self.picks.iter().enumerate().filter(|(_, option)| **option != usize::MAX);
        picks.map(move |(part, option)| (part, &stock.part(tree, part)[*option]))
    }

    /// Returns whether an option for a part is compatible with those chosen so far.
    fn may_take(
        &self,
        stock: &Stock,
        context: QueryInWorld<'_>,
        (tree, part): (usize, usize),
        option: usize,
    ) -> bool {
        let query = context.query;
        let supply = &stock.part(tree, part)[option];
        let has_room = stock.draws(supply).iter().all(|draw| {
            let (pool, taken) = (stock.pool(draw.pool), self.taken[draw.pool]);
            let sum = taken.saturating_add(draw.units);
            sum <= pool.left && sum <= pool.max_unit
        });
        if !has_room {
            return false;
        }
        let mine = &query.parts[part];
        if query.isolate && !mine.spread {
            let others = self.picked(stock, tree).filter(|(part, _)| !query.parts[*part].spread);
            if others.into_iter().any(|(_, other)| other.slot == supply.slot) {
                return false;
            }
        }
        if !query.nested && !mine.amounts.is_empty() {
            let beside = |(part, other): (usize, &Supply)| {
                other.slot != supply.slot
                    && other.root == supply.root
                    && !query.parts[part].amounts.is_empty()
            };
            if self.picked(stock, tree).any(beside) {
                return false;
            }
        }
        self.keeps_subtrees(stock, context, (tree, part), supply)
    }

    /// Returns whether the first option chosen for each complete `same_subtree` set is an ancestor of all others.
    fn keeps_subtrees(
        &self,
        stock: &Stock,
        QueryInWorld { world, query }: QueryInWorld<'_>,
        (tree, part): (usize, usize),
        supply: &Supply,
    ) -> bool {
        let group = query.parts[part].group;
        query.subtrees.iter().filter(|set| set.contains(&group)).all(|set| {
            let parts = set.iter().flat_map(|group| query.groups[*group].parts.clone());
            let (mut first, mut last) = (supply.slot, supply.slot);
            for other in parts.filter(|other| *other != part) {
                let option = self.picks[other];
                if option == usize::MAX {
                    return true;
                }
                let slot = stock.part(tree, other)[option].slot;
                (first, last) = (first.min(slot), last.max(slot));
            }
            last < first + world.place(first).len
        })
    }

    /// Returns whether the chosen options together have the required traits of the unsuffixed group.
    fn has_required_traits(
        &self,
        stock: &Stock,
        QueryInWorld { query, .. }: QueryInWorld<'_>,
        tree: usize,
    ) -> bool {
        let spread = || self.picked(stock, tree).filter(|(part, _)| query.parts[*part].spread);
        let met = spread().fold(0, |met, (_, supply)| met | supply.meets);
        query.together.iter().enumerate().all(|(nth, clause)| match nth {
            0..64 => met >> nth & 1 == 1,
            _ => spread().any(|(_, it)| clause.iter().any(|set| set.contains(it.slot))),
        })
    }

    /// Number of copies of the candidate that fit.
    fn copies(&self, stock: &Stock, tree: usize) -> i64 {
        let draws = self.picked(stock, tree).flat_map(|(_, supply)| stock.draws(supply));
        let copies = draws.map(|draw| stock.pool(draw.pool).left / self.taken[draw.pool].max(1));
        copies.min().map_or(1, |copies| copies.max(1))
    }

    /// Claims copies of the candidate.
    fn claim(&mut self, stock: &mut Stock, tree: usize, copies: i64) {
        for part in 0..self.picks.len() {
            let supply = stock.part(tree, part)[self.picks[part]].clone();
            for nth in 0..stock.draws(&supply).len() {
                let pool = stock.draws(&supply)[nth].pool;
                let taken = std::mem::take(&mut self.taken[pool]);
                stock.take(pool, taken.saturating_mul(copies));
            }
        }
    }
}

/// Numbers read to try an option: its draws, and the options that it must be compatible with.
fn try_work(query: &Query) -> usize {
    let of_sets = query.subtrees.iter().flatten().map(|group| query.groups[*group].parts.len());
    let beside = if query.isolate || !query.nested { query.parts.len() } else { 0 };
    TRY_WORK + of_sets.sum::<usize>() + beside
}
