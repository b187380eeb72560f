//! Waiting for a [turn](crate::fairness::turns), and work in one.

use std::time::Duration;

use tokio::task::JoinError;
use tracing::Instrument as _;

use super::Dialect;
use super::problem::Problem;
use crate::fairness::turns::{Asker, Turn, Turns};
use crate::observe::spans::{self, span};

/// Waits for a turn, but no longer than `patience`.
///
/// # Errors
/// 503: too many wait already, or there was no turn in that time, for which `late` is the reason.
pub(in crate::http) async fn turn_within<D: Dialect>(
    turns: &Turns,
    asker: Asker,
    patience: Duration,
    late: &str,
) -> Result<Turn, Problem<D>> {
    let turn = turns.turn(asker).instrument(span!("queue"));
    match tokio::time::timeout(patience, turn).await {
        Ok(turn) => turn.map_err(|error| Problem::not_now(error.to_string())),
        Err(_) => Err(Problem::not_now(late)),
    }
}

/// Works beside the threads that serve requests. The turn ends with the work.
///
/// # Errors
/// The server stops.
pub(in crate::http) async fn work_in<D: Dialect, T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem<D>> {
    spans::spawn_blocking_holding(turn, work).await.map_err(not_done)
}

/// Why work on another thread has not come to its end. A panic goes on here, where panics are caught.
pub(in crate::http) fn not_done<D: Dialect>(error: JoinError) -> Problem<D> {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => Problem::internal(error.to_string()),
    }
}
