//! Waits for a [turn](crate::fairness::turns), and runs work in one.

use std::time::Duration;

use tokio::task::JoinError;

use super::dialect::{Dialect, Problem};
use crate::fairness::turns::{Requester, Turn, Turns};
use crate::observe::spans::{self, Timed, span};

/// Waits for a turn for at most `patience`.
///
/// # Errors
/// 503: the queue is full, or there was no turn in time; `late` is the detail of the latter.
pub(in crate::http) async fn turn_within<D: Dialect>(
    turns: &Turns,
    requester: Requester,
    patience: Duration,
    late: &str,
) -> Result<Turn, Problem<D>> {
    let turn = turns.turn(requester).timed(span!("queue"));
    match tokio::time::timeout(patience, turn).await {
        Ok(turn) => turn.map_err(|error| Problem::not_now(error.to_string())),
        Err(_) => Err(Problem::not_now(late)),
    }
}

/// Runs work on a blocking thread, in a turn that ends with it.
///
/// # Errors
/// The server is stopping.
pub(in crate::http) async fn work_in<D: Dialect, T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem<D>> {
    spans::spawn_blocking_holding(turn, work).await.map_err(not_done)
}

/// Converts the error of a task. A panic is resumed, to be caught by the panic layer.
pub(in crate::http) fn not_done<D: Dialect>(error: JoinError) -> Problem<D> {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => Problem::internal(error.to_string()),
    }
}
