//! The time of a plan. It begins with the first turn at the solver, and does not run while the plan waits
//! for another turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use metrics::{counter, histogram};

use super::attempt::Terms;
use super::failure::Work;
use super::offload::wait_for;
use super::{Failure, Planning};
use crate::fairness::turns::Turn;
use crate::fairness::watch::Watch;
use crate::planner::draft::Draft;
use crate::planner::{Answer, Progress, SolvingTime};

/// The size of a plan beyond which it does not matter for its turn: the time of a plan is bounded,
/// however many servers it has.
const SIZE_MAX: usize = 100;

/// The time of an attempt that begins when the time of the plan is up, because others overtook the
/// attempts before.
const LATE_ATTEMPT: Duration = Duration::from_millis(500);

/// How many such attempts a plan has at most.
const LATE_ATTEMPTS_MAX: u32 = 4;

/// How much time a plan has left.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) terms: Terms,
    watch: Watch,
    /// When it ends; `None` before the first turn.
    deadline: Option<Instant>,
    /// How much longer the plan may wait for turns.
    wait: Duration,
    /// Attempts that others overtook.
    overtaken: usize,
    /// Those of them that began when the time was up.
    late: u32,
}

/// A turn at the solver.
#[derive(Debug)]
pub(super) struct SolverTurn {
    turn: Turn,
    watch: Watch,
    began: Instant,
    deadline: Instant,
    /// Attempts of the plan that others overtook, and whether its time was up then.
    overtaken: usize,
    is_late: bool,
    /// How long it took until a solution was known.
    first: OnceLock<Duration>,
    /// Whether nobody waits for the answer any more.
    abandoned: Arc<AtomicBool>,
    /// The threads of the solver, for all plans together.
    threads: usize,
}

/// Ends the search of a turn when it is dropped.
pub(super) struct AbandonOnDrop(Arc<AtomicBool>);

impl Budget {
    pub(super) fn new(planning: &Planning, terms: Terms) -> Self {
        let watch = planning.watch.clone();
        let wait = planning.turn_wait;
        Self { terms, watch, deadline: None, wait, overtaken: 0, late: 0 }
    }

    /// A turn at the solver for a draft. While others wait, drafts of few servers come first.
    ///
    /// # Errors
    /// `NoTurn`.
    pub(super) async fn turn(
        &mut self,
        planning: &Planning,
        draft: &Draft,
    ) -> Result<SolverTurn, Failure> {
        let began = Instant::now();
        let size = draft.open_servers().clamp(1, SIZE_MAX) as u64;
        let asker = (self.terms.asker, size);
        let turn = wait_for(&planning.solver_turns, asker, self.wait, Work::Solving).await?;
        let waited = began.elapsed();
        self.wait = self.wait.saturating_sub(waited);
        let began = self.watch.now();
        let deadline = match self.deadline {
            None => began + self.terms.budget,
            Some(deadline) => deadline + waited,
        };
        self.deadline = Some(deadline);
        let (watch, abandoned) = (self.watch.clone(), Arc::default());
        let (overtaken, is_late) = (self.overtaken, self.late > 0);
        let first = OnceLock::new();
        let threads = planning.solver_threads;
        Ok(SolverTurn {
            turn,
            watch,
            began,
            deadline,
            overtaken,
            is_late,
            first,
            abandoned,
            threads,
        })
    }

    /// Notes that others have overtaken an attempt. Returns whether there may be another one: as long as
    /// the time is not up, and some short ones after that. For a plan that takes no turn, the time begins
    /// with the first question.
    pub(super) fn begin_again(&mut self) -> bool {
        self.overtaken += 1;
        let now = self.watch.now();
        if now < *self.deadline.get_or_insert(now + self.terms.budget) {
            return true;
        }
        self.late += 1;
        self.deadline = Some(now + LATE_ATTEMPT);
        self.late <= LATE_ATTEMPTS_MAX
    }
}

impl SolverTurn {
    /// What ends the search when it is dropped.
    pub(super) fn guard(&self) -> AbandonOnDrop {
        AbandonOnDrop(Arc::clone(&self.abandoned))
    }

    /// Logs and records how long it took to choose hosts, and when the first solution was known.
    pub(super) fn log(&self, answer: &Answer) {
        let all = self.watch.now().saturating_duration_since(self.began);
        // A search that ends between two looks at the time has its solution at the end.
        let first = self.first.get().copied().map_or(all, |first| first.min(all));
        let proven = if answer.cost == answer.bound { "true" } else { "false" };
        counter!("berth_plans_solved_total", "proven" => proven).increment(1);
        histogram!("berth_planner_solve_duration_seconds").record(all);
        tracing::debug!(
            servers = answer.places.len(),
            first_us = first.as_micros(),
            all_us = all.as_micros(),
            optimal = answer.cost == answer.bound,
            "hosts are chosen"
        );
    }
}

impl SolvingTime for SolverTurn {
    fn is_up(&self, grace: Duration) -> bool {
        self.abandoned.load(Ordering::Relaxed) || self.watch.now() >= self.deadline + grace
    }

    fn is_share_up(&self, shares: u32, of: u32) -> bool {
        let all = self.deadline.saturating_duration_since(self.began);
        let share = all * shares / of.max(1);
        self.abandoned.load(Ordering::Relaxed) || self.watch.now() >= self.began + share
    }

    /// While others wait, a plan ends when only the last component of its cost could be better. One that
    /// is less good gets an equal share of its time, as if those that wait had to share it. A plan that
    /// others have overtaken hurries in the same way, because they would overtake a long attempt again.
    fn is_enough(&self, found: Progress) -> bool {
        if found == Progress::Nothing {
            return false;
        }
        self.first.get_or_init(|| self.watch.now().saturating_duration_since(self.began));
        let others = self.turn.wanted_by() + self.overtaken;
        let is_good = found == Progress::AllButTheLastComponent;
        let has_had_its_share = || {
            let all = self.deadline.saturating_duration_since(self.began);
            let so_far = self.watch.now().saturating_duration_since(self.began);
            so_far.as_nanos() * (others as u128 + 1) >= all.as_nanos()
        };
        self.is_late || others > 0 && (is_good || has_had_its_share())
    }

    /// An equal share, so that a plan gives up threads when another one begins.
    fn threads(&self) -> usize {
        self.turn.share_of(self.threads)
    }
}

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
