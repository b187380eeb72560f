//! Queries of operators that may take a second of processor time. Their turns are separate from
//! those of candidate searches, which need not wait for them.

use super::context::Problem;
use crate::fairness::turns::{Requester, Turn};
use crate::http::api::in_turn::{turn_within, work_in};
use crate::http::app::App;

/// Maximum work for a query, in numbers read: about a second.
pub(in crate::http) const WORK_MAX: usize = 200_000_000;

/// Runs a query on a blocking thread, in a turn. The response should be serialized there as well,
/// since it may be large.
///
/// # Errors
/// The queue is full, or there was no turn in time.
pub(in crate::http) async fn run<T: Send + 'static>(
    app: &App,
    requester: Requester,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    work_in(turn(app, requester).await?, work).await
}

/// Waits for a turn, for a query that reads the database first.
///
/// # Errors
/// The queue is full, or there was no turn in time.
pub(in crate::http) async fn turn(app: &App, requester: Requester) -> Result<Turn, Problem> {
    let late = "too many queries are in progress; retry later";
    turn_within(&app.questions, requester, app.options.stream_wait, late).await
}
