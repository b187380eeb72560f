//! How much is left at each site while a combination is being made, and whether that can still be
//! enough for all.

#![expect(clippy::indexing_slicing, reason = "sites and classes are positions in the lists")]

use super::matching::Matching;
use super::part::Part;
use super::plan::Plan;

/// One way to supply a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) slot: u32,
    /// Which of the sites of a [`Capacity`] it is.
    pub(super) site: usize,
    /// Whether only this anchor can use it so. A candidate without any such choice consists of
    /// sharing providers that other anchors can use as well.
    pub(super) bound: bool,
    /// Which clauses of the unsuffixed group's required traits it meets, the first 64, a bit each.
    pub(super) meets: u64,
}

/// What is left. A *site* is a provider that is an option for any part; sites matter only if parts
/// can get into each other's way, and otherwise there are none.
#[derive(Debug, Default)]
pub(super) struct Capacity {
    /// The slots of the sites, ascending.
    slots: Vec<u32>,
    /// For each site and contended class, the amount that can still be taken.
    left: Vec<i64>,
    /// For each site, whether a suffixed group that is to be kept apart has it.
    held: Vec<bool>,
    matching: Matching,
    /// For each site, whether it has been counted.
    counted: Vec<bool>,
}

/// A part that is to get one of its options.
#[derive(Clone, Copy)]
pub(super) struct PartOptions<'a> {
    pub(super) part: &'a Part,
    pub(super) options: &'a [Choice],
}

impl Capacity {
    /// Finds out how much there is at the sites of all choices, and tells the choices their site.
    pub(super) fn survey(&mut self, plan: &Plan, choices: &mut [Choice]) {
        self.slots.clear();
        self.left.clear();
        self.held.clear();
        if plan.contended.is_empty() && !plan.keeps_apart() {
            return;
        }
        self.slots.extend(choices.iter().map(|choice| choice.slot));
        self.slots.sort_unstable();
        self.slots.dedup();
        for choice in choices {
            choice.site = self.slots.partition_point(|&slot| slot < choice.slot);
        }
        for &slot in &self.slots {
            let rows = plan.contended.iter().map(|it| it.column.get(slot));
            self.left.extend(rows.map(|row| row.map_or(0, |row| row.available())));
        }
        self.held.resize(self.slots.len(), false);
    }

    /// Whether parts can get into each other's way at all.
    pub(super) fn matters(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Takes what a part needs from a site, if it is there.
    pub(super) fn take(&mut self, plan: &Plan, part: &Part, site: usize) -> bool {
        if !self.matters() {
            return true;
        }
        let alone = plan.isolate && !part.spread;
        if alone && self.held[site] {
            return false;
        }
        let classes = plan.contended.len();
        let left = &mut self.left[site * classes..][..classes];
        let needs = || part.amounts.iter().filter_map(|it| Some((it.contended?, it.units)));
        if needs().any(|(class, units)| units > left[class]) {
            return false;
        }
        for (class, units) in needs() {
            left[class] -= units;
        }
        self.held[site] |= alone;
        true
    }

    /// Gives back what [`take`](Self::take) took.
    pub(super) fn release(&mut self, plan: &Plan, part: &Part, site: usize) {
        if !self.matters() {
            return;
        }
        if plan.isolate && !part.spread {
            self.held[site] = false;
        }
        for amount in &part.amounts {
            if let Some(class) = amount.contended {
                self.left[site * plan.contended.len() + class] += amount.units;
            }
        }
    }

    /// Whether the sites together have room for all that the parts take.
    pub(super) fn has_total<'t>(
        &mut self,
        plan: &Plan,
        parts: &(impl Iterator<Item = PartOptions<'t>> + Clone),
    ) -> bool {
        plan.contended.iter().enumerate().all(|(class, total)| {
            self.counted.clear();
            self.counted.resize(self.slots.len(), false);
            let mut there = 0;
            for part in parts.clone().filter(|part| part.units(class).is_some()) {
                for choice in part.options {
                    if !std::mem::replace(&mut self.counted[choice.site], true) {
                        there += i128::from(self.left[choice.site * plan.contended.len() + class]);
                    }
                }
            }
            there >= i128::from(total.units)
        })
    }

    /// Whether all parts can have one of their options, as far as one contended class at a time,
    /// or keeping apart, is concerned. If not, nothing can be found; if so, perhaps.
    pub(super) fn may_serve<'t>(
        &mut self,
        plan: &Plan,
        parts: impl Iterator<Item = PartOptions<'t>> + Clone,
    ) -> bool {
        (0..plan.contended.len()).all(|class| self.may_give(plan, parts.clone(), class))
            && (!plan.keeps_apart() || self.may_part(parts))
    }

    /// As far as one contended class is concerned.
    fn may_give<'t>(
        &mut self,
        plan: &Plan,
        parts: impl Iterator<Item = PartOptions<'t>> + Clone,
        class: usize,
    ) -> bool {
        let parts = parts.filter_map(|part| Some((part, part.units(class)?)));
        let Some(least) = parts.clone().map(|(_, units)| units).min() else { return true };
        let Self { slots, left, matching, .. } = self;
        let left = |site: usize| left[site * plan.contended.len() + class];
        matching.clear();
        for (part, units) in parts {
            matching.add(part.sites().filter(|&site| left(site) >= units));
        }
        // Exact if all take the same; otherwise more than there really are.
        let seats = |site| usize::try_from(left(site) / least).unwrap_or_default();
        matching.all_served((0..slots.len()).map(seats))
    }

    /// As far as keeping suffixed groups apart is concerned.
    fn may_part<'t>(&mut self, parts: impl Iterator<Item = PartOptions<'t>>) -> bool {
        let Self { slots, held, matching, .. } = self;
        matching.clear();
        for part in parts.filter(|part| !part.part.spread) {
            matching.add(part.sites().filter(|&site| !held[site]));
        }
        matching.all_served(slots.iter().map(|_| 1))
    }
}

impl PartOptions<'_> {
    /// How much of a contended class it takes.
    fn units(&self, class: usize) -> Option<i64> {
        let mut amounts = self.part.amounts.iter();
        Some(amounts.find(|amount| amount.contended == Some(class))?.units)
    }

    fn sites(&self) -> impl Iterator<Item = usize> {
        self.options.iter().map(|choice| choice.site)
    }
}
