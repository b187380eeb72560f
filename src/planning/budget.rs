//! The time of a plan. It begins with the first turn at the solver, and does not run while the plan waits
//! for another turn.

use std::time::{Duration, Instant};

use super::attempt::Terms;
use super::failure::Work;
use super::offload::wait_for;
use super::{Failure, Planning};
use crate::turns::Turn;
use crate::watch::Watch;

/// How much time a plan has left.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) terms: Terms,
    watch: Watch,
    /// When it ends; `None` before the first turn.
    deadline: Option<Instant>,
    /// How much longer the plan may wait for turns.
    wait: Duration,
}

impl Budget {
    pub(super) fn new(planning: &Planning, terms: Terms) -> Self {
        let watch = planning.watch.clone();
        Self { terms, watch, deadline: None, wait: planning.turn_wait }
    }

    /// A turn at the solver, and when the search has to end.
    ///
    /// # Errors
    /// `NoTurn`.
    pub(super) async fn turn(&mut self, planning: &Planning) -> Result<(Turn, Instant), Failure> {
        let began = Instant::now();
        let turn =
            wait_for(&planning.solver_turns, self.terms.asker, self.wait, Work::Solving).await?;
        let waited = began.elapsed();
        self.wait = self.wait.saturating_sub(waited);
        let deadline = match self.deadline {
            None => self.watch.now() + self.terms.budget,
            Some(deadline) => deadline + waited,
        };
        self.deadline = Some(deadline);
        Ok((turn, deadline))
    }

    /// Whether the time is up. For a plan that takes no turn, the time begins with the first question.
    pub(super) fn is_up(&mut self) -> bool {
        let now = self.watch.now();
        now >= *self.deadline.get_or_insert(now + self.terms.budget)
    }
}
