//! The remaining capacity while the parts of a combination are assigned, and checks whether it can still suffice
//! for all of them.

#![expect(clippy::indexing_slicing, reason = "sites and classes are positions in the lists")]

use std::collections::HashMap;

use super::matching::Matching;
use super::part::{Amount, Part};
use super::query::Query;
use crate::world::World;

/// An option for a part: a provider that can supply it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) slot: u32,
    /// The position among the sites of a [`Capacity`].
    pub(super) site: usize,
    /// Whether only this anchor can use the option. A candidate without such an option consists of
    /// sharing providers that other anchors can use as well.
    pub(super) bound: bool,
    /// The clauses of the unsuffixed group's required traits that it meets: a bit for each of the
    /// first 64.
    pub(super) meets: u64,
}

/// The remaining capacity of each *site*: a provider that is an option for any part. There are
/// sites only if parts can conflict, because several request one class or must use different
/// providers.
#[derive(Debug, Default)]
pub(super) struct Capacity {
    /// The slots of the sites, ascending.
    slots: Vec<u32>,
    /// For each site and contended class, the remaining capacity.
    left: Vec<i64>,
    /// For each site, whether a suffixed group that must be alone on its provider uses it.
    held: Vec<bool>,
    /// For each site, the first site in its tree, if a candidate may use only one provider of each tree.
    trees: Vec<usize>,
    matching: Matching,
    /// For each site, whether it was counted.
    counted: Vec<bool>,
}

/// A part with its options.
#[derive(Clone, Copy)]
pub(super) struct PartOptions<'a> {
    /// The position of the part.
    pub(super) position: usize,
    pub(super) part: &'a Part,
    pub(super) options: &'a [Choice],
}

impl Capacity {
    /// Sets up the sites of these choices with their capacity, and sets the site of each choice.
    pub(super) fn survey(&mut self, world: &World, query: &Query, choices: &mut [Choice]) {
        self.slots.clear();
        self.left.clear();
        self.held.clear();
        self.trees.clear();
        if query.contended.is_empty() && !query.keeps_apart() {
            return;
        }
        self.slots.extend(choices.iter().map(|choice| choice.slot));
        self.slots.sort_unstable();
        self.slots.dedup();
        for choice in choices {
            choice.site = self.slots.partition_point(|&slot| slot < choice.slot);
        }
        for &slot in &self.slots {
            let rows = query.contended.iter().map(|it| it.column.get(slot));
            self.left.extend(rows.map(|row| row.map_or(0, |row| row.available())));
        }
        self.held.resize(self.slots.len(), false);
        if !query.nested {
            let root = |slot: u32| world.place(slot).root;
            let mut first: HashMap<u32, usize> = HashMap::new();
            let trees = self.slots.iter().enumerate();
            self.trees.extend(trees.map(|(site, &slot)| *first.entry(root(slot)).or_insert(site)));
        }
    }

    /// Returns whether parts can conflict at all.
    pub(super) fn matters(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Returns whether a site has the capacity for a part.
    pub(super) fn has_room(&self, query: &Query, part: &Part, site: usize) -> bool {
        if !self.matters() {
            return true;
        }
        let left = self.left(query, site);
        let has = |it: &Amount| it.contended.is_none_or(|class| it.units <= left[class]);
        !(query.isolate && !part.spread && self.held[site]) && part.amounts.iter().all(has)
    }

    /// The remaining capacity of a site, by contended class.
    pub(super) fn left(&self, query: &Query, site: usize) -> &[i64] {
        let classes = query.contended.len();
        &self.left[site * classes..][..classes]
    }

    /// Returns whether a suffixed group that must be alone on its provider uses a site.
    pub(super) fn is_held(&self, site: usize) -> bool {
        self.held[site]
    }

    /// Returns the work since the last call, in options read.
    pub(super) fn take_work(&mut self) -> usize {
        self.matching.take_work()
    }

    /// Takes the amounts of a part from a site, if the site has them.
    pub(super) fn take(&mut self, query: &Query, part: &Part, site: usize) -> bool {
        if !self.has_room(query, part, site) {
            return false;
        }
        if self.matters() {
            let left = &mut self.left[site * query.contended.len()..];
            for (class, units) in
                part.amounts.iter().filter_map(|it| Some((it.contended?, it.units)))
            {
                left[class] -= units;
            }
            self.held[site] |= query.isolate && !part.spread;
        }
        true
    }

    /// Undoes [`take`](Self::take).
    pub(super) fn release(&mut self, query: &Query, part: &Part, site: usize) {
        if !self.matters() {
            return;
        }
        if query.isolate && !part.spread {
            self.held[site] = false;
        }
        for amount in &part.amounts {
            if let Some(class) = amount.contended {
                self.left[site * query.contended.len() + class] += amount.units;
            }
        }
    }

    /// Returns whether the sites of all parts together have the total of each contended class.
    pub(super) fn has_total<'t>(
        &mut self,
        query: &Query,
        parts: &(impl Iterator<Item = PartOptions<'t>> + Clone),
    ) -> bool {
        query.contended.iter().enumerate().all(|(class, total)| {
            self.counted.clear();
            self.counted.resize(self.slots.len(), false);
            let mut there = 0;
            for part in parts.clone().filter(|part| part.units(class).is_some()) {
                for choice in part.options {
                    if !std::mem::replace(&mut self.counted[choice.site], true) {
                        there += i128::from(self.left[choice.site * query.contended.len() + class]);
                    }
                }
            }
            there >= i128::from(total.units)
        })
    }

    /// Returns whether every part can get one of its options, considering one contended class at a time, and
    /// isolation. `false` proves that there is no combination; `true` proves nothing.
    pub(super) fn may_serve<'t>(
        &mut self,
        query: &Query,
        parts: impl Iterator<Item = PartOptions<'t>> + Clone,
    ) -> bool {
        (0..query.contended.len()).all(|class| self.may_give(query, parts.clone(), class))
            && (!query.keeps_apart() || self.may_part(parts))
    }

    /// The same for one contended class.
    fn may_give<'t>(
        &mut self,
        query: &Query,
        parts: impl Iterator<Item = PartOptions<'t>> + Clone,
        class: usize,
    ) -> bool {
        let parts = parts.filter_map(|part| Some((part, part.units(class)?)));
        let Some(least) = parts.clone().map(|(_, units)| units).min() else { return true };
        let Self { slots, left, matching, trees, .. } = self;
        let left = |site: usize| left[site * query.contended.len() + class];
        matching.clear();
        for (part, units) in parts {
            matching.add_in(trees, part.sites().filter(|&site| left(site) >= units));
        }
        // Exact if all parts take the same amount; otherwise an upper bound.
        let seats = |site| usize::try_from(left(site) / least).unwrap_or_default();
        if trees.is_empty() {
            return matching.all_served((0..slots.len()).map(seats));
        }
        // One provider supplies everything that is taken from its tree.
        let mut of_trees = vec![0; slots.len()];
        for (site, &tree) in trees.iter().enumerate() {
            of_trees[tree] = seats(site).max(of_trees[tree]);
        }
        matching.all_served(of_trees.into_iter())
    }

    /// The same for suffixed groups that must use different providers.
    fn may_part<'t>(&mut self, parts: impl Iterator<Item = PartOptions<'t>> + Clone) -> bool {
        let Self { slots, held, matching, trees, .. } = self;
        let suffixed = parts.filter(|part| !part.part.spread);
        matching.clear();
        for part in suffixed.clone() {
            matching.add_in(&[], part.sites().filter(|&site| !held[site]));
        }
        if !matching.all_served(slots.iter().map(|_| 1)) {
            return false;
        }
        if trees.is_empty() {
            return true;
        }
        // They must be in different trees as well, if they supply resources.
        matching.clear();
        for part in suffixed.filter(|part| !part.part.amounts.is_empty()) {
            matching.add_in(trees, part.sites().filter(|&site| !held[site]));
        }
        matching.all_served(slots.iter().map(|_| 1))
    }
}

impl PartOptions<'_> {
    /// The amount of a contended class that the part requests.
    fn units(&self, class: usize) -> Option<i64> {
        let mut amounts = self.part.amounts.iter();
        Some(amounts.find(|amount| amount.contended == Some(class))?.units)
    }

    fn sites(&self) -> impl Iterator<Item = usize> {
        self.options.iter().map(|choice| choice.site)
    }
}
