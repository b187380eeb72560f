//! Work that takes as long as a stored plan is large, however small the request is. It runs on a thread
//! of its own, in turns that projects share fairly, away from the threads that serve requests.

use std::time::Duration;

use tracing::Instrument as _;

use super::failure::Work;
use super::{Failure, Planning};
use crate::fairness::turns::{Asker, Turn, Turns};
use crate::observe::spans::{self, span};

impl Planning {
    /// Waits for a turn at reading stored plans. Take it before the plan is loaded: a request that waits
    /// must not hold a plan in memory.
    ///
    /// # Errors
    /// `NoTurn`.
    pub(crate) async fn read_turn(&self, asker: Asker) -> Result<Turn, Failure> {
        wait_for(&self.read_turns, (asker, 1), self.turn_wait, Work::Reading).await
    }
}

/// Waits for a turn at some work of a size, for so long at the most.
///
/// # Errors
/// `NoTurn`.
pub(super) async fn wait_for(
    turns: &Turns,
    (asker, size): (Asker, u64),
    most: Duration,
    work: Work,
) -> Result<Turn, Failure> {
    let turn = turns.turn_for(asker, size).instrument(span!("queue"));
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

/// Does the work on a thread of its own. The turn ends when the work is done, even if nobody waits for it
/// any more.
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
