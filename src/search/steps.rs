//! Work is counted in steps of a few nanoseconds, so that a search pauses after the same work on every
//! machine.

/// Steps per call: about a millisecond at the most.
pub(super) const STEPS: usize = 50_000;

/// What looking at one anchor costs, in steps.
pub(super) const ANCHOR_STEPS: usize = 16;
/// What combining sets for one part in one block costs, in steps.
pub(super) const BLOCK_STEPS: usize = 16;

/// How far a call got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is a candidate.
    Found,
    /// The steps of the call are used up.
    Paused,
    /// There is nothing more.
    Exhausted,
}

/// Steps left in a call.
#[derive(Debug)]
pub(super) struct Steps(usize);

impl Steps {
    /// The steps of one call.
    pub(super) fn new() -> Self {
        Self(STEPS)
    }

    /// Uses up some; whether any were left.
    pub(super) fn take(&mut self, steps: usize) -> bool {
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(steps);
        left
    }

    /// How many steps the call has used up.
    pub(super) fn taken(&self) -> u64 {
        (STEPS - self.0) as u64
    }
}
