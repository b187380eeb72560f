//! Work that takes as long as a stored plan is large, however small the request is: it is done away
//! from the threads that serve requests, in turns that projects share fairly.

use super::problem::Problem;
use crate::http::app::App;
use crate::http::turns::{Asker, Turn};

/// Waits for a turn at reading stored plans. Take it before the plan is loaded: what waits must not
/// hold a plan in memory.
///
/// # Errors
/// 503: too many plans are read at present.
pub(super) async fn turn(app: &App, asker: Asker) -> Result<Turn, Problem> {
    let turn = app.read_turns.turn(asker);
    let why = match tokio::time::timeout(app.options.planner.turn_wait, turn).await {
        Ok(Ok(turn)) => return Ok(turn),
        Ok(Err(crowded)) => crowded.to_string(),
        Err(_) => "too many plans are read at present".to_owned(),
    };
    let explanation =
        format!("Ostro error: the request did not come to its turn: {why}; try again");
    Err(Problem::unavailable(&why).explained(explanation))
}

/// Does the work on a thread of its own, and gives the turn back when it is done, also if nobody waits
/// for it any more.
///
/// # Errors
/// Those of the work; 500 if it panics.
pub(super) async fn work<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    done.await.map_err(|panic| Problem::internal(format!("reading a plan: {panic}")))?
}
