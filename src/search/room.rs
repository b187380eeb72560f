//! How much is left at each site while a combination is being made, and whether that can still be
//! enough for all.

#![expect(clippy::indexing_slicing, reason = "sites and classes are positions in the lists")]

use super::combine::Choice;
use super::matching::all_served;
use super::part::Part;
use super::plan::Plan;

/// What is left. A *site* is a provider that is an option for any part; sites matter only if parts
/// can get into each other's way, and otherwise there are none.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The slots of the sites, ascending.
    slots: Vec<u32>,
    /// For each site and contended class, the amount that can still be taken.
    left: Vec<i64>,
    /// For each site, whether a suffixed group that is to be kept apart has it.
    held: Vec<bool>,
}

/// A part that is to get one of its options.
pub(super) struct Taker<'a> {
    pub(super) part: &'a Part,
    pub(super) options: &'a [Choice],
}

impl Room {
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
            self.left.extend(rows.map(|row| row.map_or(0, |row| row.room())));
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
    pub(super) fn has_total(&self, plan: &Plan, takers: &[Taker<'_>]) -> bool {
        plan.contended.iter().enumerate().all(|(class, total)| {
            let involved = takers.iter().filter(|taker| taker.units(class).is_some());
            let options = involved.flat_map(|taker| taker.options);
            let mut sites: Vec<usize> = options.map(|choice| choice.site).collect();
            sites.sort_unstable();
            sites.dedup();
            let there = sites.into_iter().map(|site| i128::from(self.left(plan, site, class)));
            there.sum::<i128>() >= i128::from(total.units)
        })
    }

    /// Whether all takers can have one of their options, as far as one contended class at a time,
    /// or keeping apart, is concerned. If not, nothing can be found; if so, perhaps.
    pub(super) fn may_serve(&self, plan: &Plan, takers: &[Taker<'_>]) -> bool {
        let apart = || {
            let suffixed = takers.iter().filter(|taker| !taker.part.spread);
            let sites = suffixed.map(|taker| taker.sites(|site| !self.held[site])).collect();
            self.serves(sites, |_| 1)
        };
        let class = |class: usize| {
            let units = takers.iter().filter_map(|taker| taker.units(class));
            let Some(least) = units.min() else { return true };
            let sites = takers.iter().filter_map(|taker| {
                let units = taker.units(class)?;
                Some(taker.sites(|site| self.left(plan, site, class) >= units))
            });
            // Exact if all take the same; otherwise more than there really are.
            let seats = |site| usize::try_from(self.left(plan, site, class) / least);
            self.serves(sites.collect(), |site| seats(site).unwrap_or_default())
        };
        (0..plan.contended.len()).all(class) && (!plan.keeps_apart() || apart())
    }

    fn left(&self, plan: &Plan, site: usize, class: usize) -> i64 {
        self.left[site * plan.contended.len() + class]
    }

    fn serves(&self, mut takers: Vec<Vec<usize>>, seats: impl Fn(usize) -> usize) -> bool {
        takers.sort_by_key(Vec::len);
        let plenty = takers.iter().enumerate().all(|(nth, sites)| sites.len() > nth);
        plenty || {
            let seats: Vec<usize> = (0..self.slots.len()).map(seats).collect();
            all_served(&takers, &seats)
        }
    }
}

impl Taker<'_> {
    /// How much of a contended class it takes.
    fn units(&self, class: usize) -> Option<i64> {
        let mut amounts = self.part.amounts.iter();
        Some(amounts.find(|amount| amount.contended == Some(class))?.units)
    }

    fn sites(&self, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        let sites = self.options.iter().map(|choice| choice.site);
        sites.filter(|&site| usable(site)).collect()
    }
}
