//! When to stop: looks at the time once in a while.

/// Work between two looks at the time, in the units of [`Clock::is_up_after`]: a fraction of a
/// millisecond.
const WORK_PER_LOOK: usize = 20_000;

/// Says whether the time is up. Once it was, it stays so.
pub(super) struct Clock<'t> {
    is_time_up: &'t mut dyn FnMut() -> bool,
    work: usize,
    is_up: bool,
}

impl<'t> Clock<'t> {
    pub(super) fn new(is_time_up: &'t mut dyn FnMut() -> bool) -> Self {
        Self { is_time_up, work: 0, is_up: false }
    }

    /// Whether the time is up, asked after so much work: about one for each number looked at.
    pub(super) fn is_up_after(&mut self, work: usize) -> bool {
        self.work += work;
        if self.work >= WORK_PER_LOOK && !self.is_up {
            self.work = 0;
            self.is_up = (self.is_time_up)();
        }
        self.is_up
    }

    /// Looks at the time.
    pub(super) fn is_up_now(&mut self) -> bool {
        self.is_up = self.is_up || (self.is_time_up)();
        self.is_up
    }

    /// Whether the time was up when it was last looked at.
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }
}
