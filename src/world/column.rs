//! The inventories of one resource class: an entry for each slot that has one, and for each slot a byte for the
//! amount that is free, roughly, and the share of the capacity that is free.

#![expect(clippy::indexing_slicing, reason = "indices are remainders of the lengths, or ranks")]

use std::sync::Arc;

use super::pages::Pages;
use super::set::{BLOCK, Words};
use crate::model::provider::InventoryRow;
use crate::model::{ClassId, Inventory};

const ROWS: usize = BLOCK as usize;

/// The share of a full capacity; smaller shares are fractions of it.
pub(crate) const FULL_SHARE: u16 = 1 << 15;

/// For each slot of a block, the share of the capacity that is free, up to [`FULL_SHARE`]; 0 without an inventory.
pub(crate) type Shares = [u16; ROWS];

/// One inventory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InventoryEntry {
    used: i64,
    terms: Terms,
}

/// The part of an inventory that claims do not change.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms {
    inventory: Inventory,
    /// `inventory.capacity()`.
    capacity: i64,
    updated_at: i64,
}

impl InventoryEntry {
    /// The largest amount that can be allocated here: what is free, and at most `max_unit`.
    pub(crate) fn available(&self) -> i64 {
        available(self.used, &self.terms)
    }

    /// The amount that may be in use.
    pub(crate) fn capacity(&self) -> i64 {
        self.terms.capacity
    }

    /// The free amount, regardless of `max_unit`; negative if too much is in use.
    pub(crate) fn free(&self) -> i64 {
        self.terms.capacity.saturating_sub(self.used)
    }

    /// The largest amount of one allocation.
    pub(crate) fn max_unit(&self) -> i64 {
        i64::from(self.terms.inventory.max_unit)
    }

    /// Returns the entry with this amount in use.
    pub(super) fn with_use(self, used: i64) -> Self {
        Self { used, ..self }
    }

    /// Returns the entry with more or less in use, but not less than nothing.
    pub(super) fn with_changed_use(self, change: i64) -> Self {
        Self { used: self.used.saturating_add(change).max(0), ..self }
    }

    /// Converts the entry into a row of the model.
    pub(super) fn inventory(&self, class: ClassId) -> InventoryRow {
        let Self { used, terms: Terms { inventory: terms, updated_at, .. } } = *self;
        InventoryRow { class, terms, used, updated_at }
    }

    /// The free amount and the capacity; a negative free amount counts as 0.
    pub(crate) fn free_of(&self) -> (i64, i64) {
        let capacity = self.terms.capacity.max(0);
        (capacity.saturating_sub(self.used).clamp(0, capacity), capacity)
    }

    fn level(&self) -> u8 {
        level(self.free())
    }

    fn share(&self) -> u16 {
        let (free, capacity) = self.free_of();
        share(i128::from(free), i128::from(capacity))
    }
}

/// The free share of a capacity, rounded down; 0 if there is no capacity.
#[expect(clippy::cast_possible_truncation, reason = "at most FULL_SHARE")]
#[expect(clippy::cast_sign_loss, reason = "neither is negative")]
pub(crate) fn share(free: i128, capacity: i128) -> u16 {
    if capacity == 0 { 0 } else { (free * i128::from(FULL_SHARE) / capacity) as u16 }
}

impl From<InventoryRow> for InventoryEntry {
    fn from(row: InventoryRow) -> Self {
        let InventoryRow { terms: inventory, used, updated_at, .. } = row;
        Self { used, terms: Terms { inventory, capacity: inventory.capacity(), updated_at } }
    }
}

fn available(used: i64, terms: &Terms) -> i64 {
    terms.capacity.saturating_sub(used).min(i64::from(terms.inventory.max_unit))
}

/// The number of binary digits of an amount; 0 if it is not positive. Of two amounts of different levels, the one
/// with the higher level is greater.
#[expect(clippy::cast_possible_truncation, reason = "at most 63")]
fn level(amount: i64) -> u8 {
    if amount <= 0 { 0 } else { (i64::BITS - amount.leading_zeros()) as u8 }
}

/// The inventories of a block of slots. Claims change `used`; pages share the terms.
#[derive(Clone, Debug)]
struct Page {
    /// The [`level`] of the free amount of each slot.
    levels: [u8; ROWS],
    shares: Shares,
    present: Words,
    /// The greatest [`available`] of the page.
    most: i64,
    /// One for each bit of `present`, in order.
    used: Vec<i64>,
    /// In the same order.
    terms: Arc<Vec<Terms>>,
}

impl Default for Page {
    fn default() -> Self {
        let (used, terms) = Default::default();
        let (levels, shares) = ([0; ROWS], [0; ROWS]);
        Self { levels, shares, present: [0; 4], most: 0, used, terms }
    }
}

impl Page {
    fn rank(&self, at: usize) -> usize {
        let word = at / 64;
        let below = self.present[word] & ((1 << (at % 64)) - 1);
        let before: u32 = self.present[..word].iter().map(|word| word.count_ones()).sum();
        (before + below.count_ones()) as usize
    }

    fn has(&self, at: usize) -> bool {
        self.present[at / 64] >> (at % 64) & 1 == 1
    }

    fn rows(&self) -> impl Iterator<Item = InventoryEntry> {
        self.used.iter().zip(&*self.terms).map(|(&used, &terms)| InventoryEntry { used, terms })
    }

    /// Returns the greatest available amount; 0 if nothing is available.
    fn find_most(&self) -> i64 {
        self.rows().map(|row| row.available()).fold(0, i64::max)
    }

    /// The slots, among the given bits of word number `word`, whose row passes.
    fn filter(&self, word: usize, mut bits: u64, passes: impl Fn(i64, &Terms) -> bool) -> u64 {
        let before: u32 = self.present[..word].iter().map(|word| word.count_ones()).sum();
        let present = self.present[word];
        bits &= present;
        let mut ahead = bits;
        while ahead != 0 {
            let bit = ahead & ahead.wrapping_neg();
            let rank = (before + (present & (bit - 1)).count_ones()) as usize;
            if !passes(self.used[rank], &self.terms[rank]) {
                bits ^= bit;
            }
            ahead ^= bit;
        }
        bits
    }

    /// The slots of word number `word` with at least this level free, a bit each.
    fn at_level(&self, word: usize, level: u8) -> u64 {
        let (levels, _) = self.levels[word * 64..(word + 1) * 64].as_chunks();
        levels
            .iter()
            .enumerate()
            .fold(0, |bits, (nth, &eight)| bits | reach(eight, level) << (nth * 8))
    }
}

/// All inventories of a resource class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    pages: Pages<Page>,
    len: usize,
}

impl Column {
    /// Number of inventories.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The inventory in a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<InventoryEntry> {
        let at = slot as usize % ROWS;
        let page = self.pages.get(slot as usize / ROWS)?;
        if !page.has(at) {
            return None;
        }
        let rank = page.rank(at);
        Some(InventoryEntry { used: page.used[rank], terms: page.terms[rank] })
    }

    /// Returns whether a further allocation of an amount fits into a slot and respects the units of the inventory.
    pub(crate) fn fits(&self, slot: u32, amount: i64) -> bool {
        self.get(slot).is_some_and(|row| row.terms.fits(row.used, amount))
    }

    /// The slots of a block that have an inventory.
    pub(crate) fn having(&self, block: u32) -> Words {
        self.pages.get(block as usize).map_or([0; 4], |page| page.present)
    }

    /// The free shares in a block; `None` if there is no inventory in it.
    pub(crate) fn shares(&self, block: u32) -> Option<&Shares> {
        self.pages.get(block as usize).map(|page| &page.shares)
    }

    /// The greatest amount that is available in any slot of a block, or 0.
    pub(crate) fn most(&self, block: u32) -> i64 {
        self.pages.get(block as usize).map_or(0, |page| page.most)
    }

    /// The slots of a block, among those given, that may have room for a further amount. It reads no rows; every
    /// slot with room is included.
    pub(crate) fn reaching(&self, block: u32, words: Words, amount: i64) -> Words {
        let Some(page) = self.pages.get(block as usize).filter(|page| amount <= page.most) else {
            return [0; 4];
        };
        let level = level(amount);
        std::array::from_fn(|word| match words[word] {
            0 => 0,
            bits => bits & page.at_level(word, level),
        })
    }

    /// The slots of a block, among those given, into which a further amount fits.
    pub(crate) fn fitting(&self, block: u32, words: Words, amount: i64) -> Words {
        self.select(block, words, amount, |used, terms| terms.fits(used, amount))
    }

    /// The same for a sum of amounts each of which fits.
    pub(crate) fn fitting_sum(&self, block: u32, words: Words, sum: i64) -> Words {
        self.select(block, words, sum, |used, terms| sum <= available(used, terms))
    }

    /// Lowers numbers, one for each slot of a block, to the number of allocations of an amount for which the slot
    /// has room. Reads only the given slots, each of which has an inventory.
    pub(crate) fn lower_to_quotients(
        &self,
        block: u32,
        words: Words,
        amount: i64,
        least: &mut [i64; ROWS],
    ) {
        let Some(page) = self.pages.get(block as usize) else { return };
        let mut before = 0;
        for (word, (mut bits, present)) in words.into_iter().zip(page.present).enumerate() {
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                let rank = (before + (present & (bit - 1)).count_ones()) as usize;
                let free = page.terms[rank].capacity.saturating_sub(page.used[rank]);
                let least = &mut least[word * 64 + bit.trailing_zeros() as usize];
                *least = (*least).min(free.max(0) / amount.max(1));
                bits ^= bit;
            }
            before += present.count_ones();
        }
    }

    fn select(
        &self,
        block: u32,
        words: Words,
        amount: i64,
        passes: impl Fn(i64, &Terms) -> bool,
    ) -> Words {
        let reaching = self.reaching(block, words, amount);
        let Some(page) = self.pages.get(block as usize).filter(|_| reaching != [0; 4]) else {
            return [0; 4];
        };
        std::array::from_fn(|word| page.filter(word, reaching[word], &passes))
    }

    /// The same inventories with nothing in use.
    pub(crate) fn emptied(&self) -> Self {
        let mut next = self.clone();
        let indices: Vec<usize> = self.pages.iter().map(|(index, _)| index).collect();
        for index in indices {
            let page = next.pages.get_mut(index);
            page.used.fill(0);
            let mut rank = 0;
            for at in 0..ROWS {
                if page.has(at) {
                    page.levels[at] = level(page.terms[rank].capacity);
                    rank += 1;
                }
            }
            page.most = page.find_most();
        }
        next
    }

    /// Puts an inventory into a slot.
    pub(super) fn set(&mut self, slot: u32, row: InventoryEntry) {
        let at = slot as usize % ROWS;
        let page = self.pages.get_mut(slot as usize / ROWS);
        let rank = page.rank(at);
        let mut last = 0;
        page.levels[at] = row.level();
        page.shares[at] = row.share();
        if page.has(at) {
            last = available(page.used[rank], &page.terms[rank]);
            page.used[rank] = row.used;
            if page.terms[rank] != row.terms {
                Arc::make_mut(&mut page.terms)[rank] = row.terms;
            }
        } else {
            page.present[at / 64] |= 1 << (at % 64);
            insert(&mut page.used, rank, row.used);
            insert(Arc::make_mut(&mut page.terms), rank, row.terms);
            self.len += 1;
        }
        if row.available() >= page.most {
            page.most = row.available();
        } else if last == page.most {
            page.most = page.find_most();
        }
    }

    /// Takes the inventory out of a slot.
    pub(super) fn remove(&mut self, slot: u32) -> Option<InventoryEntry> {
        let row = self.get(slot)?;
        let at = slot as usize % ROWS;
        let page = self.pages.get_mut(slot as usize / ROWS);
        let rank = page.rank(at);
        page.levels[at] = 0;
        page.shares[at] = 0;
        page.present[at / 64] &= !(1 << (at % 64));
        page.used.remove(rank);
        Arc::make_mut(&mut page.terms).remove(rank);
        self.len -= 1;
        if page.used.is_empty() {
            self.pages.remove(slot as usize / ROWS);
        } else if row.available() == page.most {
            page.most = page.find_most();
        }
        Some(row)
    }

    /// Returns whether the derived values match the rows.
    pub(super) fn sound(&self) -> bool {
        let mut len = 0;
        let pages = self.pages.iter().all(|(_, page)| {
            len += page.used.len();
            let mut rows = page.rows();
            let sound = (0..ROWS).all(|at| {
                let row = if page.has(at) { rows.next() } else { None };
                let terms = row.map(|row| row.terms);
                terms.is_none_or(|terms| terms.capacity == terms.inventory.capacity())
                    && page.levels[at] == row.map_or(0, |row| row.level())
                    && page.shares[at] == row.map_or(0, |row| row.share())
            });
            sound
                && rows.next().is_none()
                && page.terms.len() == page.used.len()
                && page.most == page.find_most()
        });
        pages && len == self.len
    }
}

impl Terms {
    fn fits(&self, used: i64, amount: i64) -> bool {
        self.inventory.allows_amount(amount) && used.saturating_add(amount) <= self.capacity
    }
}

/// Inserts without keeping much room for more: there are many lists, and they seldom grow.
fn insert<T>(list: &mut Vec<T>, at: usize, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 8 + 1);
    }
    list.insert(at, item);
}

/// A bit for each of eight levels that is at least `level`, the first one lowest.
fn reach(eight: [u8; 8], level: u8) -> u64 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // Levels are below 128: with the high bit of each byte set, subtracting borrows nothing from
    // the neighbour and leaves the high bit where the byte is large enough. The product moves
    // the eight high bits side by side.
    let levels = u64::from_le_bytes(eight);
    let enough = ((levels | HIGH) - u64::from(level) * 0x0101_0101_0101_0101) & HIGH;
    (enough >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(total: i32, used: i64) -> InventoryEntry {
        InventoryRow {
            class: ClassId(0),
            terms: Inventory {
                total,
                reserved: 0,
                min_unit: 1,
                max_unit: 30,
                step_size: 1,
                allocation_ratio: 1.0,
            },
            used,
            updated_at: 0,
        }
        .into()
    }

    #[test]
    fn a_level_tells_what_can_not_fit() {
        assert_eq!([-5, 0, 1, 2, 3, 4, 7, 8].map(level), [0, 0, 1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn a_share_is_of_the_capacity() {
        let shares = [(8, 0), (8, 2), (3, 1), (8, 8), (8, 9), (0, 0)]
            .map(|(total, used)| row(total, used).share());
        assert_eq!(shares, [FULL_SHARE, FULL_SHARE / 4 * 3, 21_845, 0, 0, 0]);
    }

    #[test]
    fn a_block_at_a_time_is_slot_by_slot() {
        let mut column = Column::default();
        for slot in (0..1000).filter(|slot| slot % 7 != 3) {
            column.set(slot, row(slot.cast_signed() % 37, i64::from(slot % 11)));
        }
        for amount in [1, 2, 3, 7, 8, 20, 40] {
            for block in 0..4 {
                let given = [!0, 0x5555_5555_5555_5555, 0, !0];
                let fitting = column.fitting(block, given, amount);
                let sums = column.fitting_sum(block, given, amount);
                for at in 0..BLOCK {
                    let has = |words: Words| words[at as usize / 64] >> (at % 64) & 1 == 1;
                    let slot = block * BLOCK + at;
                    assert_eq!(has(fitting), has(given) && column.fits(slot, amount), "{slot}");
                    let available = column.get(slot).map_or(0, |row| row.available());
                    assert!(has(column.reaching(block, given, amount)) || !has(fitting));
                    assert_eq!(has(sums), has(given) && amount <= available, "{slot}");
                }
            }
        }
    }

    #[test]
    fn rows_come_and_go() {
        let mut column = Column::default();
        for slot in [5, 3, 700, 4, 255, 256] {
            column.set(slot, row(slot.cast_signed(), 0));
            assert!(column.sound());
        }
        column.set(255, row(255, 250));
        assert!(column.sound());
        assert_eq!(column.remove(4), Some(row(4, 0)));
        assert_eq!(column.remove(4), None);
        assert_eq!(column.remove(700), Some(row(700, 0)));
        assert!(column.sound());
        let kept: Vec<i64> =
            (0..1000).filter_map(|slot| Some(column.get(slot)?.available())).collect();
        assert_eq!(kept, [3, 5, 5, 30]);
        assert_eq!(column.len(), 4);
    }
}
