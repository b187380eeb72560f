//! Questions that may take a second of a processor: each has a turn, apart from those of searches for candidates,
//! so that these need not wait for operators.

use tracing::Instrument as _;

use super::Problem;
use crate::http::app::App;
use crate::spans::{self, span};
use crate::turns::{self, Asker};

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
    turn(app, asker).await?.work(work).await
}

/// A turn, for a question that asks the database first.
///
/// # Errors
/// Too many questions wait, or this one has waited for too long.
pub(super) async fn turn(app: &App, asker: Asker) -> Result<Turn, Problem> {
    let turn = app.questions.turn(asker).instrument(span!("queue"));
    match tokio::time::timeout(app.options.stream_wait, turn).await {
        Ok(turn) => turn.map(Turn).map_err(|error| Problem::not_now(error.to_string())),
        Err(_) => Err(Problem::not_now("too many questions are being answered; ask again")),
    }
}

/// The turn of a question. It ends when this is dropped, or with its work.
pub(super) struct Turn(turns::Turn);

impl Turn {
    /// Works beside the threads that serve requests.
    ///
    /// # Errors
    /// The server stops.
    pub(super) async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let Self(turn) = self;
        let work = spans::spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        });
        work.await.map_err(|error| match error.try_into_panic() {
            // It goes on here, where panics are caught.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Problem::internal(error.to_string()),
        })
    }
}
