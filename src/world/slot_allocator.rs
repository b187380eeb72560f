//! Allocates slots: runs of a power of two of slots, aligned to their size, one per tree.

#![expect(clippy::indexing_slicing, reason = "indices are remainders of the lengths, or orders")]

use super::pages::{BitPage, Pages, WORDS};

/// Numbers of slots are below 2 to the power of this.
const ORDERS: usize = 32;

/// The allocated slots, a bit each.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotAllocator {
    taken: Pages<BitPage>,
    /// By order: no run is free below the word with this number.
    full_before: [usize; ORDERS],
}

/// The bits of a word at which a run of 2^order slots may begin, for orders below 6.
fn starts(order: u32) -> u64 {
    [
        !0,
        0x5555_5555_5555_5555,
        0x1111_1111_1111_1111,
        0x0101_0101_0101_0101,
        0x1_0001_0001_0001,
        1 | 1 << 32,
    ][order as usize]
}

/// The bits of a run of 2^order slots, for orders below 6.
fn span(order: u32) -> u64 {
    (1 << (1 << order)) - 1
}

impl SlotAllocator {
    fn word(&self, number: usize) -> u64 {
        self.taken.get(number / WORDS).map_or(0, |leaf| leaf.0[number % WORDS])
    }

    /// Allocates the first free run of 2^order slots; returns its first slot.
    #[expect(clippy::cast_possible_truncation, reason = "memory ends before slots of 32 bits do")]
    pub(super) fn take(&mut self, order: u32) -> u32 {
        let words = 1_usize << order.saturating_sub(6);
        let mut number = self.full_before[order as usize].next_multiple_of(words);
        loop {
            if order < 6 {
                let mut free = !self.word(number);
                for step in 0..order {
                    free &= free >> (1 << step);
                }
                free &= starts(order);
                if free != 0 {
                    self.full_before[order as usize] = number;
                    let first = number as u32 * 64 + free.trailing_zeros();
                    self.mark(first, order, true);
                    return first;
                }
            } else if (number..number + words).all(|number| self.word(number) == 0) {
                self.full_before[order as usize] = number + words;
                let first = number as u32 * 64;
                self.mark(first, order, true);
                return first;
            }
            number += words;
        }
    }

    /// Frees the run of 2^order slots that begins at `first`.
    pub(super) fn give_back(&mut self, first: u32, order: u32) {
        self.mark(first, order, false);
        for full_before in &mut self.full_before {
            *full_before = (*full_before).min(first as usize / 64);
        }
    }

    /// Frees all of a run but its first 2^kept slots.
    pub(super) fn halve(&mut self, first: u32, order: u32, kept: u32) {
        for order in kept..order {
            self.give_back(first + (1 << order), order);
        }
    }

    fn mark(&mut self, first: u32, order: u32, taken: bool) {
        let number = first as usize / 64;
        if order < 6 {
            let bits = span(order) << (first % 64);
            let word = &mut self.taken.get_mut(number / WORDS).0[number % WORDS];
            *word = if taken { *word | bits } else { *word & !bits };
        } else {
            for number in number..number + (1 << (order - 6)) {
                let word = if taken { !0 } else { 0 };
                self.taken.get_mut(number / WORDS).0[number % WORDS] = word;
            }
        }
    }

    /// Number of allocated slots.
    pub(super) fn len(&self) -> usize {
        let words = self.taken.iter().flat_map(|(_, leaf)| leaf.0);
        words.map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether a slot is allocated.
    pub(super) fn is_taken(&self, slot: u32) -> bool {
        self.word(slot as usize / 64) >> (slot % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::SlotAllocator;

    #[test]
    fn runs_are_aligned_and_never_overlap() {
        let mut slots = SlotAllocator::default();
        let mut held: Vec<(u32, u32)> = Vec::new();
        let mut seed = 1_u32;
        for _ in 0..3000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let order = (seed >> 16) % 9;
            if seed >> 30 == 0 && !held.is_empty() {
                let (first, order) = held.swap_remove((seed >> 8) as usize % held.len());
                slots.give_back(first, order);
            } else {
                let first = slots.take(order);
                assert_eq!(first % (1 << order), 0);
                held.push((first, order));
            }
        }
        held.sort_unstable();
        assert!(held.windows(2).all(|pair| pair[0].0 + (1 << pair[0].1) <= pair[1].0));
        assert_eq!(slots.len(), held.iter().map(|(_, order)| 1 << order).sum::<usize>());
    }

    #[test]
    fn freed_slots_are_reused() {
        let mut slots = SlotAllocator::default();
        let large = slots.take(8);
        slots.halve(large, 8, 2);
        assert_eq!(slots.len(), 4);
        assert_eq!(slots.take(2), 4);
        assert_eq!(slots.take(7), 128);
        assert_eq!(slots.take(0), 8);
        assert!(slots.is_taken(8) && !slots.is_taken(9));
    }
}
