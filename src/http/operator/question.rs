//! Questions that may take a second of a processor: each has a turn, apart from those of searches for candidates,
//! so that these need not wait for operators.

use super::Problem;
use crate::fairness::turns::{Asker, Turn};
use crate::http::api::in_turn::{turn_within, work_in};
use crate::http::app::App;

/// The maximum work for a question, in numbers read: about a second.
pub(super) const WORK_MAX: usize = 200_000_000;

/// Answers a question beside the threads that serve requests, in a turn. The answer should be written there, too:
/// it may be large.
///
/// # Errors
/// Too many questions wait, or this one has waited for too long.
pub(super) async fn answer<T: Send + 'static>(
    app: &App,
    asker: Asker,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    work_in(turn(app, asker).await?, work).await
}

/// A turn, for a question that asks the database first.
///
/// # Errors
/// Too many questions wait, or this one has waited for too long.
pub(super) async fn turn(app: &App, asker: Asker) -> Result<Turn, Problem> {
    let late = "too many questions are being answered; ask again";
    turn_within(&app.questions, asker, app.options.stream_wait, late).await
}
