//! Further threads of a search. Each runs ruin and recreate on a state of its own, while the first thread runs the
//! rounds; all share the best placement. They prove nothing, and the first thread decides when the search ends.

use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};

use super::branch_and_bound::BranchAndBound;
use super::incumbent::SharedIncumbent;
use super::ruin_and_recreate::{Schedule, listed_max, ruin_and_recreate};
use super::unit_sets::{self, try_other_units};
use crate::observe::request_context::RequestScope;
use crate::solver::budget::{Budget, ThreadCount};
use crate::solver::counted::CountedUnits;
use crate::solver::problem::Rule;
use crate::solver::state::State;

/// Number of steps of ruin and recreate in the first pass of a thread, and in later ones. Each pass has twice as
/// many as the one before. A few long passes find more than many short ones, which the first thread runs.
const STEPS_FIRST: u64 = 1 << 16;
const STEPS_MAX: u64 = 1 << 18;

/// The coolness ([`Schedule::coolness`]) of the passes, in rotation. The best one depends on the problem.
const COOLNESS: [u64; 3] = [3, 10, 1];

/// The further threads of a search. They end when this is dropped.
pub(super) struct Threads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    /// Number of threads that the search may use at present, including the first one.
    count: &'scope ThreadCount<'scope>,
    running: Vec<(usize, ScopedJoinHandle<'scope, ()>)>,
    /// Maximum number of threads so far. Their memory remains accounted for.
    most: usize,
    shared: Arc<SharedIncumbent>,
}

/// Ends a search if the thread panics.
struct BreakOffOnPanic(Arc<SharedIncumbent>);

impl<'scope, 'env> Threads<'scope, 'env> {
    /// Creates an empty set for a search that may use `count` threads.
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        count: &'scope ThreadCount<'scope>,
        search: &mut BranchAndBound<'_>,
    ) -> Self {
        Self { scope, count, running: Vec::new(), most: 0, shared: Arc::clone(search.share()) }
    }

    /// Starts as many threads as the search may use in addition to the running ones, and as there is memory for.
    /// The state is empty.
    ///
    /// # Panics
    /// If one of them has panicked.
    pub(super) fn start<'p: 'scope>(
        &mut self,
        search: &mut BranchAndBound<'p>,
        state: &State<'p>,
        budget: &mut Budget<'_>,
    ) {
        self.join(ScopedJoinHandle::is_finished);
        for number in 1..(self.count)() {
            if self.running.iter().any(|(other, _)| *other == number) {
                continue;
            }
            let memory = memory(state);
            if self.running.len() == self.most {
                // The first thread needs memory for its lists as well.
                if budget.room() < memory + listed_max(state.model) || budget.is_spent_with(memory)
                {
                    return;
                }
                self.most += 1;
            }
            let (search, state) = (search.for_thread(), state.clone());
            let (shared, count) = (Arc::clone(&self.shared), self.count);
            // A panic is logged with the request that the work belongs to.
            let request = RequestScope::current();
            let work = move || {
                request.run(move || {
                    let _guard = BreakOffOnPanic(Arc::clone(&shared));
                    let mut has_ended = || shared.has_ended() || count() <= number;
                    let mut budget = Budget::new(&mut has_ended).within(memory);
                    improve(search, state, number - 1, &mut budget);
                });
            };
            let named = thread::Builder::new().name(format!("solver-{number}"));
            // If the system has no more threads, the search continues with the existing ones.
            let Ok(thread) = named.spawn_scoped(self.scope, work) else { return };
            self.running.push((number, thread));
        }
    }

    /// Ends all of them.
    ///
    /// # Panics
    /// If one of them has panicked.
    pub(super) fn end(mut self) {
        self.shared.end();
        self.join(|_| true);
    }

    /// Joins the threads that have ended, or will soon. Their panics continue in this thread.
    fn join(&mut self, is_ending: impl Fn(&ScopedJoinHandle<'scope, ()>) -> bool) {
        let running = std::mem::take(&mut self.running);
        for (number, thread) in running {
            if !is_ending(&thread) {
                self.running.push((number, thread));
            } else if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Threads<'_, '_> {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Drop for BreakOffOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.break_off();
        }
    }
}

/// Improves the best placement, or searches for the first one, until the budget is spent or the target is reached.
/// Each pass of ruin and recreate starts with the best placement of all threads.
fn improve(
    mut search: BranchAndBound<'_>,
    mut state: State<'_>,
    number: usize,
    budget: &mut Budget<'_>,
) {
    let mut steps = STEPS_FIRST;
    for (pass, coolness) in COOLNESS.iter().cycle().skip(number % COOLNESS.len()).enumerate() {
        search.take_over(budget);
        if budget.is_spent_now() || search.has_reached_target() {
            return;
        }
        let seed = ((number as u64 + 1) << 32) + pass as u64;
        let schedule = Schedule { steps, seed, coolness: *coolness };
        ruin_and_recreate(&mut search, &mut state, schedule, budget);
        if budget.is_spent_now() || search.has_reached_target() {
            return;
        }
        try_other_units(&mut search, &mut state, schedule, budget);
        steps = (2 * steps).min(STEPS_MAX);
    }
}

/// The memory of one thread, in numbers: its state, its lists, and its best placements.
fn memory(state: &State<'_>) -> usize {
    let model = state.model;
    let (hosts, pools) = (model.problem.hosts.len(), model.problem.pools.len());
    let servers = model.problem.servers.len();
    let of_rules = |rule: &Rule| 2 * model.units.count(rule.level()) + rule.parts().len();
    let rules: usize = model.problem.rules.iter().map(of_rules).sum();
    let quotas = model.quotas.iter().map(|it| model.units.count(it.level));
    let counted: usize = model.counted.iter().map(CountedUnits::count).sum();
    model.state_size()
        + (2 * model.sizes.classes + 8) * hosts
        + 2 * pools
        + 32 * servers
        + rules
        + quotas.sum::<usize>()
        + (2 + model.sizes.classes) * counted
        + listed_max(model)
        + unit_sets::memory(hosts)
}
