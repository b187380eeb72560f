//! Pseudo-random numbers, the same in every run.

/// The increment of splitmix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

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
        self.0 = self.0.wrapping_add(GAMMA);
        usize::try_from((mixed(self.0) >> 33) % end.max(1)).unwrap_or(0)
    }

    /// Removes items at random until at most `most` are left.
    pub(super) fn keep_some<T>(&mut self, items: &mut Vec<T>, most: usize) {
        while items.len() > most {
            let at = self.below(items.len() as u64);
            items.swap_remove(at);
        }
    }
}

/// A pseudo-random number for a host, which differs from round to round.
pub(super) fn shuffled(host: usize, round: u64) -> u64 {
    mixed((host as u64 + 1).wrapping_mul(GAMMA).wrapping_add(round << 32)) >> 32
}

fn mixed(mut it: u64) -> u64 {
    it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}
