//! Chance that repeats itself: the same seed, the same throws.

/// The seed of this run: that of `STORM_SEED`, or the same one every time.
pub fn seed() -> u64 {
    std::env::var("STORM_SEED").map_or(1, |seed| seed.parse().unwrap())
}

/// Throws (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// One of these.
    pub fn pick<'p, T>(&mut self, of: &'p [T]) -> Option<&'p T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }

    /// Whether something happens that happens this often of a hundred times.
    pub fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}
