//! The candidate at hand, in buffers that serve all candidates of a search one after the other,
//! and which providers belong into the summaries.

#![expect(clippy::indexing_slicing, reason = "positions are those of the lists they were made for")]

use super::part::Amount;
use super::plan::Plan;
use crate::model::ClassId;
use crate::world::World;
use crate::world::set::Set;

/// The candidate.
#[derive(Debug, Default)]
pub(super) struct CandidateBuffer {
    /// Slot of each provider used, and where its amounts end.
    pub(super) providers: Vec<(u32, usize)>,
    /// Amounts, those of a provider together, ascending by class.
    pub(super) amounts: Vec<(ClassId, i64)>,
    /// Slots of the providers of each group, group by group.
    pub(super) mapped: Vec<u32>,
    /// Where those of each group end.
    pub(super) mapped_ends: Vec<usize>,
    /// Whether the candidate is a single provider, so that the next such one differs only in that.
    solo: bool,
    takings: Vec<(u32, ClassId, i64)>,
    /// The slots that summaries are to be told of, a bit each: roots, or providers.
    involved: Vec<u64>,
    /// When only providers in some trees are still looked for: their roots, and how many
    /// providers there may be.
    surveyed: Option<(Set, usize)>,
}

/// What a survey is about.
pub(super) struct Survey {
    /// Roots of the trees of which a candidate was given.
    pub(super) kept: Set,
    /// Members of those trees that are not involved yet and may come to be.
    pub(super) pending: Vec<u32>,
}

impl CandidateBuffer {
    /// Makes a candidate of a provider that is alone in its tree and supplies all.
    pub(super) fn solo(&mut self, plan: &Plan, slot: u32) {
        if !self.solo {
            self.takings.clear();
            self.mapped.clear();
            self.mapped_ends.clear();
            for group in &plan.groups {
                self.mapped.push(slot);
                self.mapped_ends.push(self.mapped.len());
                for Amount { class, units, .. } in
                    plan.parts[group.parts.clone()].iter().flat_map(|part| &part.amounts)
                {
                    self.takings.push((slot, *class, *units));
                }
            }
            self.merge();
            self.solo = true;
        }
        self.mapped.fill(slot);
        for (provider, _) in &mut self.providers {
            *provider = slot;
        }
        if !self.providers.is_empty() {
            self.involve(slot, slot);
        }
    }

    /// Makes a candidate of the slots chosen for each part.
    pub(super) fn combined(&mut self, world: &World, plan: &Plan, picks: &[u32]) {
        self.solo = false;
        self.takings.clear();
        self.mapped.clear();
        self.mapped_ends.clear();
        for group in &plan.groups {
            let from = self.mapped.len();
            for position in group.parts.clone() {
                let slot = picks[position];
                if !self.mapped[from..].contains(&slot) {
                    self.mapped.push(slot);
                }
                for Amount { class, units, .. } in &plan.parts[position].amounts {
                    self.takings.push((slot, *class, *units));
                }
            }
            self.mapped[from..].sort_unstable();
            self.mapped_ends.push(self.mapped.len());
        }
        self.merge();
        for at in 0..self.providers.len() {
            let slot = self.providers[at].0;
            let root = world.place(slot).root;
            self.involve(root, if plan.nested { root } else { slot });
        }
    }

    /// Sums up `takings` by provider and class.
    fn merge(&mut self) {
        self.takings.sort_unstable();
        self.providers.clear();
        self.amounts.clear();
        let mut last = None;
        for &(slot, class, amount) in &self.takings {
            match self.amounts.last_mut() {
                Some((_, sum)) if last == Some((slot, class)) => {
                    *sum = sum.saturating_add(amount);
                }
                _ => self.amounts.push((class, amount)),
            }
            match self.providers.last_mut() {
                Some((provider, end)) if *provider == slot => *end = self.amounts.len(),
                _ => self.providers.push((slot, self.amounts.len())),
            }
            last = Some((slot, class));
        }
    }

    /// From now on nobody is involved but in the trees of those involved so far.
    pub(super) fn begin_survey(&mut self, world: &World, plan: &Plan) -> Survey {
        let mut kept = Set::default();
        for slot in self.involved(0) {
            kept.insert(world.place(slot).root);
        }
        let members = kept.iter().flat_map(|root| root..root + world.place(root).len);
        let pending = members.filter(|&slot| {
            !self.is_involved(slot) && plan.parts.iter().any(|part| part.fits(slot))
        });
        let pending: Vec<u32> = pending.collect();
        self.surveyed = Some((kept.clone(), pending.len()));
        Survey { kept, pending }
    }

    /// Whether anybody may still come to be involved.
    pub(super) fn is_surveying(&self) -> bool {
        self.surveyed.as_ref().is_some_and(|(_, pending)| *pending > 0)
    }

    fn is_involved(&self, slot: u32) -> bool {
        let word = self.involved.get(slot as usize / 64);
        word.is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    fn involve(&mut self, root: u32, slot: u32) {
        if let Some((kept, _)) = &self.surveyed
            && (!kept.contains(root) || self.is_involved(slot))
        {
            return;
        }
        if let Some((_, pending)) = &mut self.surveyed {
            *pending = pending.saturating_sub(1);
        }
        let word = slot as usize / 64;
        if self.involved.len() <= word {
            self.involved.resize((word + 1).next_power_of_two(), 0);
        }
        self.involved[word] |= 1 << (slot % 64);
    }

    /// The slots involved in the candidates so far, from one on: roots of trees, or when a
    /// candidate may not use several providers of a tree, providers.
    pub(super) fn involved(&self, from: u32) -> impl Iterator<Item = u32> {
        let skipped = from / 64;
        let words = self.involved.iter().skip(skipped as usize);
        words.zip((skipped * 64..).step_by(64)).flat_map(move |(word, first)| {
            let before = from.saturating_sub(first).min(63);
            let mut word = *word >> before << before;
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros();
                word &= word.wrapping_sub(1);
                (bit < 64).then(|| first + bit)
            })
        })
    }
}
