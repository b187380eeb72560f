//! Work is counted in steps of a few nanoseconds, so that a search pauses after the same work on
//! every machine.

/// The maximum number of steps of one call: about a millisecond.
pub(super) const STEPS: usize = 50_000;

/// The steps that examining one anchor costs.
pub(super) const ANCHOR_STEPS: usize = 16;
/// The steps that combining the sets of one part in one block costs.
pub(super) const BLOCK_STEPS: usize = 16;

/// The numbers that are read between two questions whether the work is enough: about a millisecond.
pub(super) const WORK_BETWEEN: usize = 1 << 20;

/// A function that is told the work that was done since it was last called, in numbers read, and returns whether it
/// was more than `work_max` in all.
pub fn budget(work_max: usize) -> impl FnMut(usize) -> bool {
    let mut work = 0;
    move |more| {
        work += more;
        work > work_max
    }
}

/// What a call found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// The next item, which was not given before.
    Found(T),
    /// Nothing so far: the steps of the call, about a millisecond, are used up. Call again, or give
    /// up.
    Paused,
    /// There are no more items.
    Exhausted,
}

/// How far a call got, where what it found is kept elsewhere.
pub(super) type Progress = Next<()>;

/// The steps of a call.
#[derive(Debug)]
pub(super) struct Steps(usize);

impl Steps {
    /// None taken yet.
    pub(super) fn new() -> Self {
        Self(0)
    }

    /// Uses up some steps. Returns whether any were left.
    pub(super) fn take(&mut self, steps: usize) -> bool {
        let left = self.0 < STEPS;
        self.0 = self.0.saturating_add(steps);
        left
    }

    /// The steps that the call has used up; the last ones may be more than were left.
    pub(super) fn taken(&self) -> u64 {
        self.0 as u64
    }
}
