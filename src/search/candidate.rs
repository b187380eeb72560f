//! The current candidate, in buffers that all candidates of a search reuse, and the providers in the summaries.

#![expect(clippy::indexing_slicing, reason = "positions are those of the lists they were made for")]

use super::part::Amount;
use super::query::Query;
use crate::model::ClassId;
use crate::world::World;
use crate::world::set::Set;

/// The current candidate.
#[derive(Debug, Default)]
pub(super) struct CandidateBuffer {
    /// The slot of each provider, and the end of its amounts in `amounts`.
    pub(super) providers: Vec<(u32, usize)>,
    /// The amounts, provider by provider, ascending by class.
    pub(super) amounts: Vec<(ClassId, i64)>,
    /// The slots of the providers of each group, group by group.
    pub(super) mapped: Vec<u32>,
    /// The end of each group in `mapped`.
    pub(super) mapped_ends: Vec<usize>,
    /// Whether the candidate is a single provider. The next such candidate differs only in its
    /// slot.
    solo: bool,
    takings: Vec<(u32, ClassId, i64)>,
    /// The slots in the summaries, a bit each: roots of trees, or providers.
    involved: Vec<u64>,
    /// During a survey: the roots of its trees, and the number of providers that may still be added.
    surveyed: Option<(Set, usize)>,
}

/// The scope of a survey.
pub(super) struct Survey {
    /// The roots of the trees with a candidate.
    pub(super) kept: Set,
    /// The members of these trees that are not in the summaries yet and may be added.
    pub(super) pending: Vec<u32>,
}

impl CandidateBuffer {
    /// Sets the candidate to one provider that is alone in its tree and supplies everything.
    pub(super) fn solo(&mut self, query: &Query, slot: u32) {
        if !self.solo {
            self.takings.clear();
            self.mapped.clear();
            self.mapped_ends.clear();
            for group in &query.groups {
                self.mapped.push(slot);
                self.mapped_ends.push(self.mapped.len());
                for Amount { class, units, .. } in
                    query.parts[group.parts.clone()].iter().flat_map(|part| &part.amounts)
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

    /// Sets the candidate to the slots chosen for the parts. Returns false if it would use several holds; then the
    /// summaries do not have it.
    pub(super) fn combined(&mut self, world: &World, query: &Query, picks: &[u32]) -> bool {
        self.solo = false;
        self.takings.clear();
        self.mapped.clear();
        self.mapped_ends.clear();
        for group in &query.groups {
            let from = self.mapped.len();
            for position in group.parts.clone() {
                let slot = picks[position];
                if !self.mapped[from..].contains(&slot) {
                    self.mapped.push(slot);
                }
                for Amount { class, units, .. } in &query.parts[position].amounts {
                    self.takings.push((slot, *class, *units));
                }
            }
            self.mapped[from..].sort_unstable();
            self.mapped_ends.push(self.mapped.len());
        }
        self.merge();
        if query.released.as_ref().is_some_and(|released| !released.fits(self.taken())) {
            return false;
        }
        for at in 0..self.providers.len() {
            let slot = self.providers[at].0;
            let root = world.place(slot).root;
            self.involve(root, if query.nested { root } else { slot });
        }
        true
    }

    /// The amounts by slot and class.
    fn taken(&self) -> impl Iterator<Item = (u32, ClassId, i64)> {
        let mut from = 0;
        self.providers.iter().flat_map(move |&(slot, end)| {
            let amounts = self.amounts[from..end].iter();
            from = end;
            amounts.map(move |&(class, amount)| (slot, class, amount))
        })
    }

    /// Sums `takings` by provider and class.
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

    /// Starts the survey: from now on, summaries grow only within the trees that they contain.
    pub(super) fn start_survey(&mut self, world: &World, query: &Query) -> Survey {
        let mut kept = Set::default();
        for slot in self.involved(0) {
            kept.insert(world.place(slot).root);
        }
        let members = kept.iter().flat_map(|root| root..root + world.place(root).len);
        let pending = members.filter(|&slot| {
            !self.is_involved(slot) && query.parts.iter().any(|part| part.fits(slot))
        });
        let pending: Vec<u32> = pending.collect();
        self.surveyed = Some((kept.clone(), pending.len()));
        Survey { kept, pending }
    }

    /// Returns whether a provider may still be added to the summaries.
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

    /// The slots in the summaries so far, from one slot on: roots of trees; or providers, if a candidate may use
    /// only one provider of each tree.
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
