//! The budget of a search: its time, which is checked after a fixed amount of work, and its memory.
//!
//! Every loop whose length depends on the problem reports its work. So a search ends soon after its time is up, and
//! the same problem makes the same number of checks on every machine, which lets tests count checks instead of
//! reading a clock.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The work between two checks of the time, in the units of [`Budget::is_spent_after`]: a fraction
/// of a millisecond.
const WORK_PER_LOOK: usize = 20_000;

/// The progress of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// No placement.
    Nothing,
    /// A placement whose cost may be improved in more than its last component.
    Placement,
    /// A placement that is optimal, perhaps except for the last component of the cost.
    AllButTheLastComponent,
}

/// The reason why a budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// The time is up.
    Time,
    /// The caller has [enough](Budget::unless_enough).
    Enough,
    /// Only the last component of the cost could be better, and has not improved for long.
    Idle,
    /// The memory ran out.
    Memory,
}

/// Minimum work without improvement after which a search is [idle](Spent::Idle): one or two seconds. Large
/// problems improve in small steps.
const IDLE_MIN: u64 = 1_500_000_000;
/// A search is idle if it has worked this many times as long since the last improvement as before it.
const IDLE_FACTOR: u64 = 2;

/// The memory of one search with all of its threads, in numbers of eight bytes: 256 MiB.
pub(super) const KEPT_MAX: usize = 32 << 20;

/// The budget of a search. It is spent when its time is up or when the search needs too much memory, and stays
/// spent.
pub struct Budget<'t> {
    is_time_up: &'t mut dyn FnMut() -> bool,
    /// Decides whether to end before the time is up, given the progress.
    is_enough: Option<&'t mut dyn FnMut(Progress) -> bool>,
    progress: Progress,
    work: usize,
    work_per_look: usize,
    worked: u64,
    /// The work until the last improvement.
    improved_after: u64,
    kept: usize,
    kept_max: usize,
    spent: Option<Spent>,
    /// Number of threads that the search may use at present.
    threads: Option<&'t ThreadCount<'t>>,
    /// The memory in use by all threads, if there are several.
    kept_by_all: Option<&'t AtomicUsize>,
}

/// A budget that several threads share for a while.
#[derive(Debug)]
pub(super) struct Share {
    kept_max: usize,
    kept: AtomicUsize,
    worked: AtomicU64,
    is_full: AtomicBool,
}

/// Number of threads that a search may currently use, including the first. All threads call it, and it may change.
pub type ThreadCount<'t> = dyn Fn() -> usize + Sync + 't;

impl<'t> Budget<'t> {
    /// Creates a budget.
    pub fn new(is_time_up: &'t mut dyn FnMut() -> bool) -> Self {
        let work_per_look = WORK_PER_LOOK;
        Self {
            is_time_up,
            is_enough: None,
            progress: Progress::Nothing,
            work: 0,
            work_per_look,
            worked: 0,
            improved_after: 0,
            kept: 0,
            kept_max: KEPT_MAX,
            spent: None,
            threads: None,
            kept_by_all: None,
        }
    }

    /// Lets the search end before its time is up. `is_enough` is called with the progress whenever the time is
    /// checked. It must be false while the progress is [`Progress::Nothing`].
    #[must_use]
    pub fn unless_enough(self, is_enough: &'t mut dyn FnMut(Progress) -> bool) -> Self {
        Self { is_enough: Some(is_enough), ..self }
    }

    /// Lets the search use several threads. The result may then differ from run to run.
    #[must_use]
    pub fn on_threads(self, threads: &'t ThreadCount<'t>) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Limits the memory, in numbers of eight bytes.
    #[must_use]
    pub(super) fn within(self, kept_max: usize) -> Self {
        Self { kept_max, ..self }
    }

    /// Number of threads that the search may use at present; `None`: always one.
    pub(super) fn threads(&self) -> Option<&'t ThreadCount<'t>> {
        self.threads
    }

    /// The memory that is left, in numbers.
    pub(super) fn room(&self) -> usize {
        self.kept_max.saturating_sub(self.kept)
    }

    /// Spends the remaining budget.
    pub(super) fn end(&mut self) {
        self.spent = Some(Spent::Time);
    }

    /// Begins a search, which has found nothing yet.
    pub(super) fn start(&mut self) {
        self.progress = Progress::Nothing;
    }

    /// Records an improvement, with the progress.
    pub(super) fn found(&mut self, progress: Progress) {
        self.progress = self.progress.max(progress);
        self.improved_after = self.worked;
    }

    /// A budget that checks the time at every call.
    #[cfg(test)]
    pub(super) fn looking_always(is_time_up: &'t mut dyn FnMut() -> bool) -> Self {
        Self { work_per_look: 1, ..Self::new(is_time_up) }
    }

    /// Accounts for work, about one unit for each number that is read. Returns whether the budget
    /// is spent.
    pub fn is_spent_after(&mut self, work: usize) -> bool {
        self.work = self.work.saturating_add(work);
        self.worked = self.worked.saturating_add(work as u64);
        if self.work >= self.work_per_look && self.spent.is_none() {
            self.work = 0;
            self.spent = self.end_now();
        }
        self.is_spent()
    }

    /// Accounts for memory, in numbers of eight bytes, and for the work to fill it. Returns whether
    /// the budget is spent.
    pub fn is_spent_with(&mut self, numbers: usize) -> bool {
        self.kept = match self.kept_by_all {
            None => self.kept.saturating_add(numbers),
            Some(kept) => kept.fetch_add(numbers, Ordering::Relaxed).saturating_add(numbers),
        };
        if self.kept > self.kept_max {
            self.spent = Some(Spent::Memory);
        }
        self.is_spent_after(numbers)
    }

    /// The work so far.
    pub(super) fn worked(&self) -> u64 {
        self.worked
    }

    /// The memory in use, in numbers.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Releases memory down to the given amount.
    pub fn release_to(&mut self, kept: usize) {
        self.kept = kept;
    }

    /// Checks the time now. Returns whether the budget is spent.
    pub fn is_spent_now(&mut self) -> bool {
        self.spent = self.spent.or_else(|| self.end_now());
        self.is_spent()
    }

    /// The reason to end now, if there is one.
    fn end_now(&mut self) -> Option<Spent> {
        let progress = self.progress;
        if (self.is_time_up)() {
            return Some(Spent::Time);
        }
        if self.is_enough.as_mut().is_some_and(|is_enough| is_enough(progress)) {
            return Some(Spent::Enough);
        }
        let idle_max = IDLE_MIN.max(self.improved_after.saturating_mul(IDLE_FACTOR));
        let is_idle = progress == Progress::AllButTheLastComponent
            && self.worked - self.improved_after >= idle_max;
        is_idle.then_some(Spent::Idle)
    }

    /// Returns whether the budget is spent, as of the last check of the time.
    pub fn is_spent(&self) -> bool {
        self.spent.is_some()
    }

    /// The reason why the budget is spent, as of the last check of the time.
    pub fn spent(&self) -> Option<Spent> {
        self.spent
    }

    /// Returns whether the memory ran out, and not the time.
    pub fn is_full(&self) -> bool {
        self.spent == Some(Spent::Memory)
    }
}

impl Share {
    /// The remainder of a budget.
    pub(super) fn of(budget: &Budget<'_>) -> Self {
        Self {
            kept_max: budget.kept_max,
            kept: AtomicUsize::new(budget.kept),
            worked: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
        }
    }

    /// The budget of one of the threads.
    pub(super) fn budget<'t>(&'t self, is_time_up: &'t mut dyn FnMut() -> bool) -> Budget<'t> {
        let kept_by_all = Some(&self.kept);
        Budget { kept_max: self.kept_max, kept_by_all, ..Budget::new(is_time_up) }
    }

    /// Records the work of a thread when it ends.
    pub(super) fn end(&self, budget: &Budget<'_>) {
        self.worked.fetch_add(budget.worked, Ordering::Relaxed);
        self.is_full.fetch_or(budget.is_full(), Ordering::Relaxed);
    }

    /// Returns the remainder when all threads have ended.
    pub(super) fn return_to(self, budget: &mut Budget<'_>) {
        budget.kept = self.kept.into_inner();
        budget.worked = budget.worked.saturating_add(self.worked.into_inner());
        if self.is_full.into_inner() {
            budget.spent = Some(Spent::Memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, IDLE_MIN, KEPT_MAX, Progress, Spent, WORK_PER_LOOK};

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
    fn a_search_may_end_with_what_it_has_found() {
        let mut never = || false;
        let mut is_enough = |found| found >= Progress::Placement;
        let mut budget = Budget::new(&mut never).unless_enough(&mut is_enough);
        assert!(!budget.is_spent_now());
        budget.found(Progress::AllButTheLastComponent);
        budget.found(Progress::Nothing);
        assert!(budget.is_spent_now() && !budget.is_full());
    }

    #[test]
    fn a_search_ends_when_it_has_not_improved_for_twice_as_long_as_before() {
        let work = |looks: u64| usize::try_from(looks * IDLE_MIN).unwrap();
        let mut never = || false;
        let mut budget = Budget::new(&mut never);
        budget.found(Progress::Placement);
        assert!(!budget.is_spent_after(work(5)), "more than the last component may improve");
        budget.found(Progress::AllButTheLastComponent);
        assert!(!budget.is_spent_after(work(9)));
        budget.found(Progress::AllButTheLastComponent);
        assert!(!budget.is_spent_after(work(27)));
        assert!(budget.is_spent_after(work(1)) && budget.spent() == Some(Spent::Idle));
        let mut never = || false;
        let mut budget = Budget::new(&mut never);
        budget.found(Progress::AllButTheLastComponent);
        assert!(!budget.is_spent_after(work(1) - 1) && budget.is_spent_after(WORK_PER_LOOK));
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
