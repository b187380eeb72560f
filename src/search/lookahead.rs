//! Decides whether the remaining parts may still be supplied together.
//!
//! A negative result is proven. Options that cannot be part of a combination are removed:
//!
//! * In each `same_subtree` set, one provider is an ancestor of all others. Each provider that may be this ancestor
//!   is tried: if the parts of the set have options below it, and all parts together can be matched to providers,
//!   then the options below it stay.
//! * If one part alone can meet a clause of required traits, its options that do not meet it are removed.
//!
//! This is repeated until nothing is removed. Then all parts are matched to the remaining options.
//!
//! *Example.* A host has two NUMA nodes with 12 devices each, and a request needs 13 devices of one node. Below
//! neither node can 13 groups be matched to 12 devices, so no device is tried.

#![expect(clippy::indexing_slicing, reason = "parts and clauses are numbered densely")]

use super::capacity::{Capacity, Choice, PartOptions};
use super::matching::Matching;
use super::query::Query;
use crate::world::World;
use crate::world::slot_data::NOWHERE;

/// Maximum work for one call, in options read: a few milliseconds. Providers that were not tried then count as
/// possible ancestors.
const WORK_MAX: usize = 1_000_000;
/// The position of the bit, after those of the clauses, for options that are bound to the anchor.
const BOUND: usize = 64;

/// The parts that are assigned.
#[derive(Clone, Copy)]
pub(super) struct Decided<'a> {
    pub(super) world: &'a World,
    pub(super) query: &'a Query,
    /// The slot chosen for each part, by position of the part; [`NOWHERE`]: none yet.
    pub(super) picks: &'a [u32],
    /// The clauses that the choices meet, and whether one of them is bound to the anchor.
    pub(super) have: (u64, bool),
    /// Whether one choice must be bound to the anchor.
    pub(super) needs_bound: bool,
}

/// Buffers that are reused from one call to the next.
#[derive(Debug, Default)]
pub(super) struct Lookahead {
    open: Options,
    narrowed: Options,
    ancestors: Vec<u32>,
    matching: Matching,
    work: usize,
}

/// The options of some parts.
#[derive(Debug, Default)]
struct Options {
    choices: Vec<Choice>,
    /// For each part, its position, and the end of its options.
    parts: Vec<(usize, usize)>,
}

impl Decided<'_> {
    /// Returns whether a slot is an ancestor of two others, or is the same.
    pub(super) fn spans(&self, slot: u32, (first, last): (u32, u32)) -> bool {
        slot <= first && last < slot + self.world.place(slot).len
    }

    /// The first and the last slot chosen for a `same_subtree` set. Slots are in the order of the tree, so only
    /// the first can be an ancestor of the others.
    pub(super) fn ends(&self, set: &[usize]) -> Option<(u32, u32)> {
        let parts = set.iter().flat_map(|&group| self.query.groups[group].parts.clone());
        let chosen = parts.map(|part| self.picks[part]).filter(|&pick| pick != NOWHERE);
        chosen.fold(None, |ends, slot| {
            Some(ends.map_or((slot, slot), |(first, last): (u32, u32)| {
                (first.min(slot), last.max(slot))
            }))
        })
    }

    /// Returns whether another provider of the same tree supplies resources already, and must be the only one.
    pub(super) fn is_beside(&self, part: usize, slot: u32) -> bool {
        let has_amounts = |part: usize| !self.query.parts[part].amounts.is_empty();
        if self.query.nested || !has_amounts(part) {
            return false;
        }
        let root = self.world.place(slot).root;
        self.picks.iter().enumerate().any(|(part, &other)| {
            other != NOWHERE
                && other != slot
                && has_amounts(part)
                && self.world.place(other).root == root
        })
    }

    /// The clauses that are not met yet, and the bit for a choice that is bound to the anchor.
    fn unmet(&self) -> u128 {
        let clauses = (1_u128 << self.query.together.len().min(BOUND)) - 1;
        let bound = u128::from(self.needs_bound && !self.have.1) << BOUND;
        clauses & !u128::from(self.have.0) | bound
    }
}

impl Lookahead {
    /// Returns whether the remaining parts may be supplied by these options.
    pub(super) fn may_go_on<'t>(
        &mut self,
        decided: &Decided<'_>,
        capacity: &mut Capacity,
        parts: impl Iterator<Item = PartOptions<'t>>,
    ) -> bool {
        let query = decided.query;
        self.open.clear();
        for part in parts {
            self.work += part.options.len();
            let is_open = |choice: &&Choice| {
                capacity.has_room(query, part.part, choice.site)
                    && !decided.is_beside(part.position, choice.slot)
            };
            self.open.add(part.position, part.options.iter().filter(is_open).copied());
        }
        let enough = self.work + WORK_MAX;
        loop {
            let before = self.open.choices.len();
            let mut sets = query.subtrees.iter();
            if !sets.all(|set| self.narrow_to_ancestors(decided, capacity, set, enough))
                || !self.narrow_to_clauses(decided.unmet())
                || !self.open.is_complete()
            {
                return false;
            }
            if self.open.choices.len() == before || self.work > enough {
                break;
            }
        }
        let may_serve = capacity.may_serve(query, self.open.parts(query));
        self.work += self.open.choices.len() + capacity.take_work();
        may_serve && self.may_meet(decided.unmet())
    }

    /// Returns the work since the last call, in options read.
    pub(super) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work) + self.matching.take_work()
    }

    /// The options of a part that remained after the last call.
    pub(super) fn open(&self, part: usize) -> &[Choice] {
        let mut parts = self.open.iter();
        parts.find(|(position, _)| *position == part).map_or(&[], |(_, options)| options)
    }

    /// Removes the options of a `same_subtree` set that are below none of its possible ancestors. Returns whether
    /// there is a possible ancestor.
    fn narrow_to_ancestors(
        &mut self,
        decided: &Decided<'_>,
        capacity: &mut Capacity,
        set: &[usize],
        enough: usize,
    ) -> bool {
        let query = decided.query;
        let is_member = |part: usize| set.contains(&query.parts[part].group);
        let ends = decided.ends(set);
        let mut ancestors = std::mem::take(&mut self.ancestors);
        ancestors.clear();
        ancestors.extend(ends.map(|(first, _)| first));
        let members = || self.open.iter().filter(|(part, _)| is_member(*part));
        if members().next().is_none() {
            self.ancestors = ancestors;
            return true;
        }
        ancestors.extend(members().flat_map(|(_, options)| options).map(|choice| choice.slot));
        ancestors.retain(|slot| ends.is_none_or(|ends| decided.spans(*slot, ends)));
        ancestors.sort_unstable();
        ancestors.dedup();
        self.work += self.open.choices.len();
        ancestors.retain(|slot| {
            self.work > enough || self.may_be_ancestor(decided, capacity, &is_member, *slot)
        });
        let is_possible = !ancestors.is_empty();
        // An ancestor below another one adds nothing.
        let mut end = 0;
        ancestors.retain(|slot| {
            let is_outer = *slot >= end;
            end = end.max(slot + decided.world.place(*slot).len);
            is_outer
        });
        let is_below = |slot: u32| {
            let at = ancestors.partition_point(|ancestor| *ancestor <= slot);
            let ancestor = at.checked_sub(1).map(|at| ancestors[at]);
            ancestor.is_some_and(|ancestor| decided.spans(ancestor, (slot, slot)))
        };
        self.open.retain(|part, choice| !is_member(part) || is_below(choice.slot));
        self.ancestors = ancestors;
        is_possible
    }

    /// Returns whether all parts may be supplied if the provider with this slot is the ancestor of a `same_subtree`
    /// set.
    fn may_be_ancestor(
        &mut self,
        decided: &Decided<'_>,
        capacity: &mut Capacity,
        is_member: &impl Fn(usize) -> bool,
        ancestor: u32,
    ) -> bool {
        let query = decided.query;
        let is_there = |options: &[Choice]| options.iter().any(|choice| choice.slot == ancestor);
        let mut on_it = self.open.iter().filter(|(part, it)| is_member(*part) && is_there(it));
        // If only one part can be there, it has to be, unless another one already is.
        let first = on_it.next().map(|(part, _)| part).filter(|_| on_it.next().is_none());
        let only = first.filter(|_| !decided.picks.contains(&ancestor));
        self.narrowed.copy(&self.open, |part, choice| {
            let is_there = only != Some(part) || choice.slot == ancestor;
            !is_member(part) || is_there && decided.spans(ancestor, (choice.slot, choice.slot))
        });
        self.work += 2 * self.open.choices.len();
        if !self.narrowed.is_complete() {
            return false;
        }
        self.work += self.narrowed.choices.len();
        let may_serve = capacity.may_serve(query, self.narrowed.parts(query));
        self.work += capacity.take_work();
        may_serve
    }

    /// Removes options of a part that alone can meet a clause. Returns whether each clause may be met.
    fn narrow_to_clauses(&mut self, unmet: u128) -> bool {
        if unmet == 0 {
            return true;
        }
        let (mut once, mut twice) = (0, 0);
        for (_, options) in self.open.iter() {
            let reach = reach(options);
            twice |= once & reach;
            once |= reach;
        }
        let alone = unmet & once & !twice;
        if alone != 0 {
            let forced: Vec<(usize, u128)> =
                self.open.iter().map(|(part, options)| (part, reach(options) & alone)).collect();
            let forced = |part: usize| forced.iter().find(|it| it.0 == part).map_or(0, |it| it.1);
            self.open.retain(|part, choice| forced(part) & !meets(choice) == 0);
        }
        unmet & !once == 0
    }

    /// Returns whether the parts may meet all clauses, if each meets no more than its best option does.
    fn may_meet(&mut self, unmet: u128) -> bool {
        let clauses = (0..BOUND).filter(|nth| unmet >> nth & 1 == 1);
        if clauses.clone().nth(1).is_none() {
            return true;
        }
        let Self { open, matching, .. } = self;
        let reached: Vec<u128> = open.iter().map(|(_, options)| reach(options)).collect();
        matching.clear();
        for clause in clauses {
            let parts = reached.iter().enumerate();
            matching.add(parts.filter(|(_, it)| *it >> clause & 1 == 1).map(|(part, _)| part));
        }
        let most = |options: &[Choice]| {
            let met = options.iter().map(|choice| u128::from(choice.meets) & unmet);
            met.map(|met| met.count_ones() as usize).fold(0, usize::max)
        };
        matching.all_served(open.iter().map(|(_, options)| most(options)))
    }
}

/// The clauses that an option meets, and whether it is bound to the anchor.
fn meets(choice: &Choice) -> u128 {
    u128::from(choice.meets) | u128::from(choice.bound) << BOUND
}

/// The same for any of some options.
fn reach(options: &[Choice]) -> u128 {
    options.iter().fold(0, |reach, choice| reach | meets(choice))
}

impl Options {
    fn clear(&mut self) {
        self.choices.clear();
        self.parts.clear();
    }

    fn add(&mut self, part: usize, choices: impl Iterator<Item = Choice>) {
        self.choices.extend(choices);
        self.parts.push((part, self.choices.len()));
    }

    /// Each part with its options.
    fn iter(&self) -> impl Iterator<Item = (usize, &[Choice])> + Clone {
        let mut from = 0;
        self.parts.iter().map(move |&(part, to)| {
            let options = &self.choices[from..to];
            from = to;
            (part, options)
        })
    }

    fn parts<'a>(&'a self, query: &'a Query) -> impl Iterator<Item = PartOptions<'a>> + Clone {
        self.iter().map(|(position, options)| PartOptions {
            position,
            part: &query.parts[position],
            options,
        })
    }

    /// Returns whether each part has an option.
    fn is_complete(&self) -> bool {
        self.iter().all(|(_, options)| !options.is_empty())
    }

    /// Copies some of the options of others.
    fn copy(&mut self, other: &Self, keep: impl Fn(usize, &Choice) -> bool) {
        self.clear();
        for (part, options) in other.iter() {
            self.add(part, options.iter().filter(|choice| keep(part, choice)).copied());
        }
    }

    /// Removes the options that `keep` rejects.
    fn retain(&mut self, keep: impl Fn(usize, &Choice) -> bool) {
        let (mut from, mut kept) = (0, 0);
        for (part, end) in &mut self.parts {
            for at in std::mem::replace(&mut from, *end)..*end {
                if keep(*part, &self.choices[at]) {
                    self.choices[kept] = self.choices[at];
                    kept += 1;
                }
            }
            *end = kept;
        }
        self.choices.truncate(kept);
    }
}
