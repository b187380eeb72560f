//! Work whose duration depends on the size of a stored plan, and not on that of the request. It runs on a separate
//! thread, in turns that projects share fairly, away from the threads that serve requests.

use std::time::Duration;

use super::context::Planning;
use super::failure::{Failure, Work};
use crate::fairness::turns::{Requester, Turn, Turns};
use crate::observe::spans::{self, Timed, span};

impl Planning {
    /// Waits for a turn at reading stored plans. Take it before the plan is loaded: a request that waits
    /// must not hold a plan in memory.
    ///
    /// # Errors
    /// `NoTurn`.
    pub(crate) async fn read_turn(&self, requester: Requester) -> Result<Turn, Failure> {
        wait_for(&self.read_turns, requester, 1, self.turn_wait, Work::Reading).await
    }
}

/// Waits for a turn at work of a given size, with a timeout.
///
/// # Errors
/// `NoTurn`.
pub(super) async fn wait_for(
    turns: &Turns,
    requester: Requester,
    size: u64,
    most: Duration,
    work: Work,
) -> Result<Turn, Failure> {
    let turn = turns.turn_for(requester, size).timed(span!("queue"));
    let why = match tokio::time::timeout(most, turn).await {
        Ok(Ok(turn)) => return Ok(turn),
        Ok(Err(error)) => error.to_string(),
        Err(_) => match work {
            Work::Reading => "too many plans are read at present".to_owned(),
            Work::Solving => "too many plans are made at present".to_owned(),
        },
    };
    Err(Failure::NoTurn(work, why))
}

/// Runs the work on a separate thread. The turn ends with the work, even if the caller has stopped waiting.
///
/// # Errors
/// Those of the work; `Panicked`.
pub(crate) async fn run<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = spans::spawn_blocking_holding(turn, work);
    done.await.map_err(|panic| Failure::Panicked(Work::Reading, panic.to_string()))?
}
