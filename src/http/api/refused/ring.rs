//! A ring of the latest entries, bounded in number, bytes and age. The oldest are dropped first.
//!
//! An entry is found by any of its ids; several entries may share an id. Entries are numbered, so
//! that they can be read a few at a time while others are added and dropped.

use std::collections::{BTreeSet, VecDeque};

/// Limits of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Maximum number of entries.
    pub(super) entries: usize,
    /// Maximum size of all entries, in bytes as given by the callers.
    pub(super) bytes: usize,
    /// Maximum age of an entry, in seconds.
    pub(super) age: i64,
}

/// Numbers of dropped entries, by the limit that dropped them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct DroppedCounts {
    pub(in crate::http) age: u64,
    pub(in crate::http) entries: u64,
    pub(in crate::http) bytes: u64,
}

/// A ring. Times are in seconds since the Unix epoch.
#[derive(Debug)]
pub(super) struct Ring<T> {
    bounds: Bounds,
    entries: VecDeque<Entry<T>>,
    /// The number of the oldest entry.
    first: u64,
    bytes: usize,
    ids: BTreeSet<(String, u64)>,
    gone: DroppedCounts,
}

#[derive(Debug)]
struct Entry<T> {
    at: i64,
    bytes: usize,
    ids: Vec<String>,
    item: T,
}

impl<T: Clone> Ring<T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (entries, ids) = (VecDeque::new(), BTreeSet::new());
        Self { bounds, entries, first: 0, bytes: 0, ids, gone: DroppedCounts::default() }
    }

    /// Adds an entry, and returns its number. An entry larger than the whole ring is dropped at
    /// once.
    pub(super) fn push(&mut self, at: i64, ids: Vec<String>, bytes: usize, item: T) -> u64 {
        self.expire(at);
        let number = self.first + self.entries.len() as u64;
        self.ids.extend(ids.iter().map(|id| (id.clone(), number)));
        self.bytes += bytes;
        self.entries.push_back(Entry { at, bytes, ids, item });
        self.shrink();
        number
    }

    /// Adds to the size of an entry, if it is still there.
    pub(super) fn grow(&mut self, number: u64, bytes: usize) {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) {
            entry.bytes += bytes;
            self.bytes += bytes;
            self.shrink();
        }
    }

    /// Drops entries that are too old.
    pub(super) fn expire(&mut self, now: i64) {
        let begin = now.saturating_sub(self.bounds.age);
        while self.entries.front().is_some_and(|oldest| oldest.at < begin) {
            self.drop_oldest();
            self.gone.age += 1;
        }
    }

    /// Returns the entries with an id, newest first.
    pub(super) fn with_id(&self, id: &str) -> impl Iterator<Item = T> {
        let range = (id.to_owned(), 0)..=(id.to_owned(), u64::MAX);
        let numbers = self.ids.range(range).rev().map(|(_, number)| *number);
        numbers.filter_map(|number| self.get(number)).cloned()
    }

    /// Returns the number of entries with an id.
    pub(super) fn count_with_id(&self, id: &str) -> usize {
        self.ids.range((id.to_owned(), 0)..=(id.to_owned(), u64::MAX)).count()
    }

    /// Returns up to `count` entries before a number, newest first, and the number to continue
    /// with; `None` at the end.
    pub(super) fn before(&self, number: u64, count: usize) -> (Vec<T>, Option<u64>) {
        let end = number.saturating_sub(self.first).min(self.entries.len() as u64);
        let end = usize::try_from(end).map_or(self.entries.len(), |end| end);
        let begin = end.saturating_sub(count);
        let found = self.entries.range(begin..end).rev().map(|entry| entry.item.clone());
        let next = (begin > 0).then_some(self.first + begin as u64);
        (found.collect(), next)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn gone(&self) -> DroppedCounts {
        self.gone
    }

    fn get(&self, number: u64) -> Option<&T> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get(place).map(|entry| &entry.item)
    }

    fn shrink(&mut self) {
        while self.entries.len() > self.bounds.entries {
            self.drop_oldest();
            self.gone.entries += 1;
        }
        while self.bytes > self.bounds.bytes && !self.entries.is_empty() {
            self.drop_oldest();
            self.gone.bytes += 1;
        }
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.entries.pop_front() else { return };
        for id in oldest.ids {
            self.ids.remove(&(id, self.first));
        }
        self.bytes -= oldest.bytes;
        self.first += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::{Bounds, DroppedCounts, Ring};

    fn ids(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    const BOUNDS: Bounds = Bounds { entries: 3, bytes: 100, age: 60 };

    #[test]
    fn entries_are_found_by_each_of_their_ids() {
        let mut ring = Ring::new(BOUNDS);
        ring.push(0, ids(&["local-1", "global"]), 10, 'a');
        ring.push(1, ids(&["local-2", "global"]), 10, 'b');
        ring.push(2, ids(&["local-3"]), 10, 'c');
        assert_eq!(ring.with_id("global").collect::<Vec<_>>(), ['b', 'a']);
        assert_eq!(ring.with_id("local-3").collect::<Vec<_>>(), ['c']);
        assert_eq!((ring.count_with_id("global"), ring.count_with_id("loc")), (2, 0));
    }

    #[test]
    fn the_oldest_give_way_by_number_by_size_and_age() {
        let mut ring = Ring::new(BOUNDS);
        for (at, item) in ['a', 'b', 'c', 'd'].into_iter().enumerate() {
            ring.push(i64::try_from(at).unwrap(), ids(&["x"]), 10, item);
        }
        assert_eq!(ring.with_id("x").collect::<Vec<_>>(), ['d', 'c', 'b']);
        ring.push(4, Vec::new(), 90, 'e');
        assert_eq!(ring.before(u64::MAX, 9), (vec!['e', 'd'], None));
        ring.expire(64);
        assert_eq!(ring.before(u64::MAX, 9), (vec!['e'], None));
        ring.expire(65);
        assert_eq!((ring.len(), ring.bytes(), ring.count_with_id("x")), (0, 0, 0));
        assert_eq!(ring.gone(), DroppedCounts { age: 2, entries: 2, bytes: 1 });
    }

    #[test]
    fn grown_entries_count_and_too_large_ones_are_dropped() {
        let mut ring = Ring::new(BOUNDS);
        let first = ring.push(0, Vec::new(), 10, 'a');
        let second = ring.push(0, Vec::new(), 10, 'b');
        ring.grow(first, 80);
        assert_eq!((ring.len(), ring.bytes()), (2, 100));
        ring.grow(second, 1);
        assert_eq!(ring.before(u64::MAX, 9), (vec!['b'], None));
        ring.grow(first, 1000);
        assert_eq!((ring.len(), ring.bytes()), (1, 11));
        ring.push(0, ids(&["x"]), 101, 'c');
        assert_eq!((ring.len(), ring.bytes(), ring.count_with_id("x")), (0, 0, 0));
    }

    proptest! {
        /// Compares the ring with a list that is searched linearly.
        #[test]
        fn a_ring_is_the_end_of_a_list(
            pushes in prop::collection::vec((0..20_i64, 0..4_u8, 1..40_usize), 0..60),
            page in 1..4_usize,
        ) {
            let mut ring = Ring::new(BOUNDS);
            let mut list: VecDeque<(i64, u8, usize, usize)> = VecDeque::new();
            let mut now = 0;
            for (nth, (later, id, bytes)) in pushes.into_iter().enumerate() {
                now += later;
                ring.push(now, vec![id.to_string()], bytes, nth);
                list.push_back((now, id, bytes, nth));
                let is_over = |list: &VecDeque<(i64, u8, usize, usize)>| {
                    list.len() > BOUNDS.entries
                        || list.iter().map(|it| it.2).sum::<usize>() > BOUNDS.bytes
                        || list.front().is_some_and(|it| it.0 < now - BOUNDS.age)
                };
                while is_over(&list) {
                    list.pop_front();
                }
                let (mut all, mut next) = (Vec::new(), Some(u64::MAX));
                while let Some(before) = next {
                    let (some, rest) = ring.before(before, page);
                    all.extend(some);
                    next = rest;
                }
                let expected: Vec<usize> = list.iter().rev().map(|it| it.3).collect();
                prop_assert_eq!(&all, &expected);
                for id in 0..4_u8 {
                    let own = list.iter().rev().filter(|it| it.1 == id).map(|it| it.3);
                    let id = id.to_string();
                    prop_assert_eq!(
                        ring.with_id(&id).collect::<Vec<_>>(),
                        own.collect::<Vec<_>>()
                    );
                }
                prop_assert_eq!(ring.bytes(), list.iter().map(|it| it.2).sum::<usize>());
            }
        }
    }
}
