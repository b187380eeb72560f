//! The inventories of one resource class: a row per slot that has one, and a byte per slot that
//! tells at a glance how much is free.

#![expect(clippy::indexing_slicing, reason = "indices are remainders of the lengths, or ranks")]

use super::pages::Pages;
use super::set::{BLOCK, Words};
use crate::model::ClassId;
use crate::model::Inventory;
use crate::model::provider::InventoryRow;

const ROWS: usize = BLOCK as usize;

/// One inventory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    /// Sum of all allocations.
    pub(crate) used: i64,
    /// `terms.capacity()`.
    pub(crate) capacity: i64,
    /// The terms.
    pub(crate) terms: Inventory,
    /// Last change, seconds since the Unix epoch.
    pub(crate) updated_at: i64,
}

impl Row {
    /// Whether `amount` more fits.
    pub(crate) fn fits(&self, amount: i64) -> bool {
        self.terms.allows_amount(amount) && self.has_room(amount)
    }

    /// Whether `amount`, a sum of amounts that fit each on its own, fits as a whole.
    pub(crate) fn fits_sum(&self, amount: i64) -> bool {
        amount <= i64::from(self.terms.max_unit) && self.has_room(amount)
    }

    /// The most that all takers together could get here.
    pub(crate) fn free(&self) -> i64 {
        self.capacity.saturating_sub(self.used)
    }

    fn has_room(&self, amount: i64) -> bool {
        self.used.saturating_add(amount) <= self.capacity
    }

    fn level(&self) -> u8 {
        level(self.free())
    }

    /// As the model has it.
    pub(super) fn inventory(&self, class: ClassId) -> InventoryRow {
        let Self { used, terms, updated_at, .. } = *self;
        InventoryRow { class, terms, used, updated_at }
    }
}

impl From<InventoryRow> for Row {
    fn from(row: InventoryRow) -> Self {
        let InventoryRow { terms, used, updated_at, .. } = row;
        Self { used, capacity: terms.capacity(), terms, updated_at }
    }
}

/// The number of binary digits of an amount; zero for what is not positive. What has a greater
/// level than an amount is greater, what has a smaller one is smaller.
#[expect(clippy::cast_possible_truncation, reason = "at most 63")]
pub(crate) fn level(amount: i64) -> u8 {
    if amount <= 0 { 0 } else { (i64::BITS - amount.leading_zeros()) as u8 }
}

#[derive(Clone, Debug)]
struct Page {
    levels: [u8; ROWS],
    present: Words,
    /// One for each bit of `present`, in order.
    rows: Vec<Row>,
}

impl Default for Page {
    fn default() -> Self {
        Self { levels: [0; ROWS], present: [0; 4], rows: Vec::new() }
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
}

/// The column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    pages: Pages<Page>,
    len: usize,
}

impl Column {
    /// How many inventories of the class there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The inventory in a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&Row> {
        let at = slot as usize % ROWS;
        let page = self.pages.get(slot as usize / ROWS)?;
        if page.has(at) { page.rows.get(page.rank(at)) } else { None }
    }

    /// The slots of a block with at least that [`level`] free: all that have room for an amount of
    /// that level, and some of the same level that have not.
    pub(crate) fn at_level(&self, block: u32, level: u8) -> Words {
        let Some(page) = self.pages.get(block as usize) else { return [0; 4] };
        let mut words = [0; 4];
        for (word, levels) in words.iter_mut().zip(page.levels.chunks_exact(64)) {
            for (nth, eight) in levels.chunks_exact(8).enumerate() {
                *word |= reach(eight, level) << (nth * 8);
            }
        }
        words
    }

    /// Puts an inventory into a slot.
    pub(super) fn set(&mut self, slot: u32, row: Row) {
        let at = slot as usize % ROWS;
        let page = self.pages.get_mut(slot as usize / ROWS);
        let rank = page.rank(at);
        page.levels[at] = row.level();
        if page.has(at) {
            page.rows[rank] = row;
        } else {
            page.present[at / 64] |= 1 << (at % 64);
            page.rows.reserve_exact(1);
            page.rows.insert(rank, row);
            self.len += 1;
        }
    }

    /// Takes the inventory out of a slot.
    pub(super) fn remove(&mut self, slot: u32) -> Option<Row> {
        self.get(slot)?;
        let at = slot as usize % ROWS;
        let page = self.pages.get_mut(slot as usize / ROWS);
        page.levels[at] = 0;
        page.present[at / 64] &= !(1 << (at % 64));
        self.len -= 1;
        let row = page.rows.remove(page.rank(at));
        if page.rows.is_empty() {
            self.pages.remove(slot as usize / ROWS);
        }
        Some(row)
    }

    /// Whether what is derived from the rows is right.
    pub(super) fn sound(&self) -> bool {
        let mut len = 0;
        let pages = self.pages.iter().all(|(_, page)| {
            len += page.rows.len();
            let mut rows = page.rows.iter();
            let sound = (0..ROWS).all(|at| {
                let row = if page.has(at) { rows.next() } else { None };
                let capacity = row.is_none_or(|row| row.capacity == row.terms.capacity());
                capacity && page.levels[at] == row.map_or(0, Row::level)
            });
            sound && rows.next().is_none()
        });
        pages && len == self.len
    }
}

/// A bit for each of eight levels that is at least `level`, the first one lowest.
fn reach(eight: &[u8], level: u8) -> u64 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // Levels are below 128: with the high bit of each byte set, subtracting borrows nothing from
    // the neighbour and leaves the high bit where the byte is large enough. The product moves
    // the eight high bits side by side.
    let levels = u64::from_le_bytes(eight.try_into().unwrap_or_default());
    let enough = ((levels | HIGH) - u64::from(level) * 0x0101_0101_0101_0101) & HIGH;
    (enough >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(total: i32, used: i64) -> Row {
        InventoryRow {
            class: ClassId(0),
            terms: Inventory {
                total,
                reserved: 0,
                min_unit: 1,
                max_unit: total,
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
        let mut column = Column::default();
        for slot in 0..1000 {
            column.set(slot, row(slot.cast_signed() % 37, i64::from(slot % 11)));
        }
        for amount in [1, 2, 3, 7, 8, 20, 40] {
            for block in 0..4 {
                let words = column.at_level(block, level(amount));
                for at in 0..BLOCK {
                    let slot = block * BLOCK + at;
                    let free = column.get(slot).map_or(0, Row::free);
                    let reached = words[at as usize / 64] >> (at % 64) & 1 == 1;
                    assert_eq!(reached, level(free) >= level(amount), "{slot} {amount}");
                    assert!(reached || free < amount);
                }
            }
        }
    }

    #[test]
    fn rows_come_and_go() {
        let mut column = Column::default();
        for slot in [5, 3, 700, 4, 255, 256] {
            column.set(slot, row(slot.cast_signed(), 0));
        }
        assert_eq!(column.remove(4).map(|row| row.capacity), Some(4));
        assert_eq!(column.remove(4), None);
        assert_eq!(column.remove(700).map(|row| row.capacity), Some(700));
        let kept: Vec<i64> =
            (0..1000).filter_map(|slot| Some(column.get(slot)?.capacity)).collect();
        assert_eq!(kept, [3, 5, 255, 256]);
        assert_eq!(column.len(), 4);
        assert!(column.sound());
    }
}
