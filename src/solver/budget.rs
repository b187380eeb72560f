//! When to stop: looks at the time once in a while, and counts what is kept in memory.

/// Work between two looks at the time, in the units of [`Budget::is_spent_after`]: a fraction of a
/// millisecond.
const WORK_PER_LOOK: usize = 20_000;

/// Numbers of eight bytes that one search may keep in memory: 256 MiB.
const KEPT_MAX: usize = 32 << 20;

/// Says whether a search has to end: because the time is up, or because it would need too much memory.
/// Once it has, it stays so.
pub struct Budget<'t> {
    is_time_up: &'t mut dyn FnMut() -> bool,
    work: usize,
    work_per_look: usize,
    kept: usize,
    is_spent: bool,
    is_full: bool,
}

impl<'t> Budget<'t> {
    /// A budget for one search, with nothing kept in memory.
    pub fn new(is_time_up: &'t mut dyn FnMut() -> bool) -> Self {
        let work_per_look = WORK_PER_LOOK;
        Self { is_time_up, work: 0, work_per_look, kept: 0, is_spent: false, is_full: false }
    }

    /// A budget that looks at the time whenever it is asked.
    #[cfg(test)]
    pub(super) fn looking_always(is_time_up: &'t mut dyn FnMut() -> bool) -> Self {
        Self { work_per_look: 1, ..Self::new(is_time_up) }
    }

    /// Whether the time is up, asked after so much work: about one for each number looked at.
    pub fn is_spent_after(&mut self, work: usize) -> bool {
        self.work = self.work.saturating_add(work);
        if self.work >= self.work_per_look && !self.is_spent {
            self.work = 0;
            self.is_spent = (self.is_time_up)();
        }
        self.is_spent
    }

    /// Whether the search has to end before it keeps so many more numbers in memory. To fill them is
    /// work as well.
    pub fn is_spent_with(&mut self, numbers: usize) -> bool {
        self.kept = self.kept.saturating_add(numbers);
        if self.kept > KEPT_MAX {
            self.is_full = true;
            self.is_spent = true;
        }
        self.is_spent_after(numbers)
    }

    /// How many numbers are kept.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Only so many numbers are kept any more.
    pub fn release_to(&mut self, kept: usize) {
        self.kept = kept;
    }

    /// Whether so many more numbers could be kept for a while; if not, the search has to end.
    pub(super) fn has_memory_for(&mut self, numbers: usize) -> bool {
        if self.kept.saturating_add(numbers) > KEPT_MAX {
            self.is_full = true;
            self.is_spent = true;
        }
        !self.is_spent
    }

    /// Looks at the time.
    pub fn is_spent_now(&mut self) -> bool {
        self.is_spent = self.is_spent || (self.is_time_up)();
        self.is_spent
    }

    /// Whether the time was up when it was last looked at, or memory was.
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// Whether it was memory that was up.
    pub fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, KEPT_MAX, WORK_PER_LOOK};

    #[test]
    fn the_time_is_looked_at_after_a_bounded_amount_of_work() {
        let mut looks = 0;
        let mut count = || {
            looks += 1;
            looks > 2
        };
        let mut budget = Budget::new(&mut count);
        let steps = (1..100).find(|_| budget.is_spent_after(WORK_PER_LOOK / 4));
        assert_eq!(steps, Some(12));
        assert!(budget.is_spent() && !budget.is_full());
    }

    #[test]
    fn too_much_memory_ends_a_search_as_well() {
        let mut never = || false;
        let mut budget = Budget::new(&mut never);
        assert!(!budget.is_spent_with(KEPT_MAX));
        assert!(budget.is_spent_with(1) && budget.is_full());
        assert!(budget.is_spent_now());
    }
}
