//! A *part* of a request is supplied by one provider: a suffixed group, or one resource class of the unsuffixed
//! group. This module finds the providers that can supply a part.

#![expect(clippy::indexing_slicing, reason = "indices are below the length of the arrays")]

use uuid::Uuid;

use crate::model::ClassId;
use crate::world::World;
use crate::world::column::Column;
use crate::world::set::{BLOCK, Set, Words};

/// Conditions on the sets (traits, aggregates) that a provider belongs to.
#[derive(Clone, Debug, Default)]
pub(super) struct SetFilter {
    /// For each list: the provider belongs to at least one of its sets.
    pub(super) all: Vec<Vec<Set>>,
    /// The provider belongs to none of these sets.
    pub(super) none: Vec<Set>,
}

impl SetFilter {
    /// Returns whether a provider passes.
    pub(super) fn admits(&self, slot: u32) -> bool {
        self.all.iter().all(|any| any.iter().any(|set| set.contains(slot)))
            && !self.none.iter().any(|set| set.contains(slot))
    }

    /// The slots among `words`, which are of one block, that pass.
    pub(super) fn words(&self, block: u32, mut words: Words) -> Words {
        for any in &self.all {
            if words == [0; 4] {
                return words;
            }
            let mut reached = [0; 4];
            for set in any {
                reached = or(reached, set.words(block));
            }
            words = and(words, reached);
        }
        for set in &self.none {
            words = and_not(words, set.words(block));
        }
        words
    }

    /// Returns whether any provider passes.
    pub(super) fn admits_a_provider(&self) -> bool {
        let Some(first) = self.all.first() else { return true };
        first.iter().any(|set| self.admits_any(set))
    }

    /// Returns whether any member of a set passes.
    pub(super) fn admits_any(&self, set: &Set) -> bool {
        set.iter().any(|slot| self.admits(slot))
    }
}

/// An amount of a resource class.
#[derive(Clone, Debug)]
pub(super) struct Amount {
    pub(super) class: ClassId,
    pub(super) units: i64,
    /// The inventories of the class.
    pub(super) column: Column,
    /// The position among the query's contended classes, if other parts request the class, too.
    pub(super) contended: Option<usize>,
}

impl Amount {
    pub(super) fn new(world: &World, class: ClassId, units: i64) -> Self {
        let column = world.column(class).cloned().unwrap_or_default();
        Self { class, units, column, contended: None }
    }
}

/// The precision with which free capacity is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Precision {
    /// Exact: by each inventory.
    #[default]
    Exact,
    /// Approximate, by an upper bound of the free amount: some providers pass that do not fit.
    Approximate,
}

/// A part of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// The position of its group in the request.
    pub(super) group: usize,
    /// Whether it is one class of the unsuffixed group.
    pub(super) spread: bool,
    /// The amounts to supply; empty for a group without resources.
    pub(super) amounts: Vec<Amount>,
    /// Conditions on the provider itself.
    pub(super) filter: SetFilter,
    /// Conditions that the provider or the anchor meets: an aggregate of the root covers the tree.
    pub(super) spanning: SetFilter,
    /// Conditions on the anchor.
    pub(super) anchor: SetFilter,
    /// The first slot and the end of the tree that it is restricted to.
    pub(super) tree: Option<(u32, u32)>,
}

impl Part {
    /// The slots among `words`, which are of one block, that can supply the part, apart from the
    /// conditions [`spanning`](Self::spanning) and [`anchor`](Self::anchor).
    pub(super) fn words(&self, block: u32, mut words: Words, precision: Precision) -> Words {
        if words == [0; 4] {
            return words;
        }
        if let Some((from, to)) = self.tree {
            words = and(words, range(block, from, to));
        }
        words = self.filter.words(block, words);
        for Amount { units, column, .. } in &self.amounts {
            if words == [0; 4] {
                break;
            }
            words = match precision {
                Precision::Exact => column.fitting(block, words, *units),
                Precision::Approximate => column.reaching(block, words, *units),
            };
        }
        words
    }

    /// Returns whether each amount alone fits.
    pub(super) fn fits(&self, slot: u32) -> bool {
        self.amounts.iter().all(|it| it.column.fits(slot, it.units))
    }

    /// Returns whether a sharing provider can supply the part to every tree that it shares with.
    pub(super) fn may_share(&self, world: &World, slot: u32) -> bool {
        let confined = match self.tree {
            // With `in_tree`, the unsuffixed group takes nothing from other trees. A suffixed group
            // restricts where its provider is, not which tree that provider serves.
            Some((from, to)) => !self.spread && (from..to).contains(&slot),
            None => true,
        };
        confined
            && self.filter.admits(slot)
            && self.spanning.admits(slot)
            && self.fits(slot)
            && world.at(slot).is_some_and(|provider| !provider.aggregates().is_empty())
    }
}

/// For each part, the slots of one block that can supply it ([`Part::words`]).
#[derive(Debug, Default)]
pub(super) struct Masks {
    precision: Precision,
    block: Option<u32>,
    words: Vec<Words>,
}

impl Masks {
    pub(super) fn new(precision: Precision) -> Self {
        Self { precision, ..Self::default() }
    }

    /// The precision of the comparison of free capacity.
    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    /// The slots of a block for each part, cached for the last block.
    pub(super) fn of(&mut self, parts: &[Part], block: u32) -> &[Words] {
        if self.block != Some(block) {
            self.words.clear();
            self.words.extend(parts.iter().map(|part| part.words(block, [!0; 4], self.precision)));
            self.block = Some(block);
        }
        &self.words
    }

    /// The slots among `slots`, which are of one block, that can supply one part; uses the cache.
    pub(super) fn within(&self, parts: &[Part], part: usize, block: u32, slots: Words) -> Words {
        if self.block == Some(block) {
            and(self.words[part], slots)
        } else {
            parts[part].words(block, slots, self.precision)
        }
    }
}

/// For each trait, the set of the providers that have it; unknown traits are left out.
pub(super) fn carriers(world: &World, names: &[String]) -> Vec<Set> {
    let ids = names.iter().filter_map(|name| world.trait_id(name));
    ids.map(|id| world.carriers(id)).collect()
}

/// For each aggregate, the set of the providers in it.
pub(super) fn members(world: &World, aggregates: &[Uuid]) -> Vec<Set> {
    aggregates.iter().map(|&aggregate| world.members(aggregate)).collect()
}

pub(super) fn and(left: Words, right: Words) -> Words {
    std::array::from_fn(|at| left[at] & right[at])
}

pub(super) fn or(left: Words, right: Words) -> Words {
    std::array::from_fn(|at| left[at] | right[at])
}

pub(super) fn and_not(left: Words, right: Words) -> Words {
    std::array::from_fn(|at| left[at] & !right[at])
}

/// The slots of a block in `from..to`.
pub(super) fn range(block: u32, from: u32, to: u32) -> Words {
    let first = block * BLOCK;
    let (from, to) = (from.saturating_sub(first).min(BLOCK), to.saturating_sub(first).min(BLOCK));
    [0, 64, 128, 192].map(|low| {
        let below = |end: u32| match end.saturating_sub(low) {
            bits @ 0..64 => (1_u64 << bits) - 1,
            _ => !0,
        };
        below(to) & !below(from)
    })
}

/// Removes the first slot from the words of a block.
pub(super) fn pop(words: &mut Words, block: u32) -> Option<u32> {
    for (word, first) in words.iter_mut().zip((block * BLOCK..).step_by(64)) {
        if *word != 0 {
            let slot = first + word.trailing_zeros();
            *word &= *word - 1;
            return Some(slot);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_into_blocks() {
        for (from, to) in [(0, 1), (63, 65), (200, 300), (256, 512), (0, 1000), (5, 5), (767, 768)]
        {
            let mut slots = Vec::new();
            for block in 0..4 {
                let mut words = range(block, from, to);
                slots.extend(std::iter::from_fn(|| pop(&mut words, block)));
            }
            assert!(slots.into_iter().eq(from..to), "{from}..{to}");
        }
    }
}
