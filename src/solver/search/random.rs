//! Pseudo-random numbers, the same in every run.

/// A source of pseudo-random numbers (splitmix64).
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Creates a source with a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number less than `end`; 0 if `end` is 0.
    pub(super) fn below(&mut self, end: u64) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((it >> 33) % end.max(1)).unwrap_or(0)
    }

    /// Removes items at random until at most `most` are left.
    pub(super) fn keep_some<T>(&mut self, items: &mut Vec<T>, most: usize) {
        while items.len() > most {
            let at = self.below(items.len() as u64);
            items.swap_remove(at);
        }
    }
}
