//! Work is counted in steps of a few nanoseconds, so that a search pauses after the same work on
//! every machine.

/// Maximum number of steps of one call: about a millisecond.
pub(super) const STEPS: usize = 50_000;

/// The cost of examining one anchor, in steps.
pub(super) const ANCHOR_STEPS: usize = 16;
/// The cost of combining the sets of one part in one block, in steps.
pub(super) const BLOCK_STEPS: usize = 16;

/// The work between two checks of the limit, in numbers read: about a millisecond.
pub(super) const WORK_BETWEEN: usize = 1 << 20;

/// Returns a function that receives the work since its last call, in numbers read, and returns whether the total
/// exceeds `work_max`.
pub fn budget(work_max: usize) -> impl FnMut(usize) -> bool {
    let mut work = 0;
    move |more| {
        work += more;
        work > work_max
    }
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// The next item.
    Found(T),
    /// Nothing so far: the steps of the call, about a millisecond, are used up. Call again, or give up.
    Paused,
    /// There are no more items.
    Exhausted,
}

/// The result of a call that stores its item elsewhere.
pub(super) type Progress = Next<()>;

/// The steps of a call.
#[derive(Debug)]
pub(super) struct Steps(usize);

impl Steps {
    /// All steps are left.
    pub(super) fn new() -> Self {
        Self(0)
    }

    /// Uses up some steps. Returns whether any were left.
    pub(super) fn take(&mut self, steps: usize) -> bool {
        let left = self.0 < STEPS;
        self.0 = self.0.saturating_add(steps);
        left
    }

    /// The steps that the call has used up; the last ones may exceed the limit.
    pub(super) fn taken(&self) -> u64 {
        self.0 as u64
    }
}
