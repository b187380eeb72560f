//! The time limit of a plan. It starts with the first turn at the solver, and is suspended while the plan waits for
//! another turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use metrics::{counter, histogram};

use super::context::{Planning, Terms};
use super::failure::{Failure, Work};
use super::offload::wait_for;
use crate::fairness::turns::Turn;
use crate::fairness::watch::Watch;
use crate::planner::{PlacedStack, Progress, SolvingTime};

/// Maximum size of a plan for its turn. The time of a plan is limited, so a larger plan takes no longer.
const SIZE_MAX: usize = 100;

/// Time limit of an attempt that begins after the time of the plan is up, because other requests overtook the
/// attempts before.
const LATE_ATTEMPT: Duration = Duration::from_millis(500);

/// Maximum number of such attempts per plan.
const LATE_ATTEMPTS_MAX: u32 = 4;

/// The remaining time of a plan.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) terms: Terms,
    watch: Watch,
    /// The end of the time; `None` before the first turn.
    deadline: Option<Instant>,
    /// The remaining time for waiting for turns.
    wait: Duration,
    /// Number of attempts that other requests overtook.
    overtaken: usize,
    /// Number of attempts that began after the time was up.
    late: u32,
}

/// A turn at the solver.
#[derive(Debug)]
pub(super) struct SolverTurn {
    turn: Turn,
    watch: Watch,
    began: Instant,
    deadline: Instant,
    /// Attempts of the plan that other requests overtook, and whether its time was up then.
    overtaken: usize,
    is_late: bool,
    /// The time until the first solution.
    first: OnceLock<Duration>,
    /// Whether the caller no longer waits for the response.
    abandoned: Arc<AtomicBool>,
    /// Number of solver threads, shared by all plans.
    threads: usize,
}

/// Ends the search of a turn when dropped.
pub(super) struct AbandonOnDrop(Arc<AtomicBool>);

impl Budget {
    pub(super) fn new(planning: &Planning, terms: Terms) -> Self {
        let watch = planning.watch.clone();
        let wait = planning.turn_wait;
        Self { terms, watch, deadline: None, wait, overtaken: 0, late: 0 }
    }

    /// Waits for a turn at the solver. Requests with few servers to place come first.
    ///
    /// # Errors
    /// `NoTurn`.
    pub(super) async fn turn(
        &mut self,
        planning: &Planning,
        servers: usize,
    ) -> Result<SolverTurn, Failure> {
        let began = Instant::now();
        let size = servers.clamp(1, SIZE_MAX) as u64;
        let (turns, requester) = (&planning.solver_turns, self.terms.requester);
        let turn = wait_for(turns, requester, size, self.wait, Work::Solving).await?;
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

    /// Records that another request has overtaken an attempt. Returns whether another attempt is allowed: while
    /// there is time, and a few short ones afterwards. For a plan that takes no turn, the time starts with the
    /// first call.
    pub(super) fn may_retry(&mut self) -> bool {
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
    /// Returns a guard that ends the search when dropped.
    pub(super) fn guard(&self) -> AbandonOnDrop {
        AbandonOnDrop(Arc::clone(&self.abandoned))
    }

    /// Logs and records how long the choice of hosts took, and when the first solution was found.
    pub(super) fn log(&self, solution: &PlacedStack) {
        let all = self.watch.now().saturating_duration_since(self.began);
        // A search that ends between two checks of the time has its solution at the end.
        let first = self.first.get().copied().map_or(all, |first| first.min(all));
        let proven = if solution.stopped.is_none() { "true" } else { "false" };
        counter!("berth_plans_solved_total", "proven" => proven).increment(1);
        histogram!("berth_planner_solve_duration_seconds").record(all);
        tracing::debug!(
            servers = solution.places.len(),
            first_us = first.as_micros(),
            all_us = all.as_micros(),
            stopped = ?solution.stopped,
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

    /// Returns whether the solver may stop. While others wait, a plan ends when only the last component of its cost
    /// could improve. A worse one gets an equal share of its time, as if it were divided among the waiting plans.
    /// An overtaken plan hurries in the same way, because a long attempt would be overtaken again.
    fn is_enough(&self, found: Progress) -> bool {
        if found == Progress::Nothing {
            return false;
        }
        self.first.get_or_init(|| self.watch.now().saturating_duration_since(self.began));
        let others = self.turn.competing() + self.overtaken;
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
