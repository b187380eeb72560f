//! Answers that take their time: work goes to threads beside those that serve requests, part by
//! part and in turns, so that however many there are the others are served.
//!
//! Between parts nothing is held but the answer itself. One part is made ahead of the client; a
//! client that takes none, or is gone, costs no more than that.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use super::response::{Stopped, Writing};
use crate::http::app::App;

/// The size of a part, in bytes.
pub(super) const PART: usize = 256 * 1024;

/// How an answer is worked on.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    turns: Arc<Semaphore>,
    /// How long a search may go on without finding anything.
    patience: Duration,
}

/// Why there will be no more of an answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The search went on for that long without finding anything.
    #[error("the search found nothing for {0:?} (--search-timeout)")]
    Fruitless(Duration),
    /// It panicked.
    #[error("{0}")]
    Panic(JoinError),
}

impl Pace {
    /// As the operator chose.
    pub(super) fn of(app: &App) -> Self {
        Self { turns: Arc::clone(&app.search_turns), patience: app.options.search_timeout }
    }

    /// Goes on until there is something to send or all is written. Gives the answer back with
    /// whether it goes on.
    pub(super) async fn go_on(self, mut writing: Writing) -> Result<(Writing, bool), Failure> {
        let began = Instant::now();
        loop {
            // The semaphore is never closed; without a turn, nothing is lost but fairness.
            let turn = self.turns.acquire().await.ok();
            let step = tokio::task::spawn_blocking(move || {
                let stopped = writing.write(PART);
                (writing, stopped)
            });
            let stopped;
            (writing, stopped) = step.await.map_err(Failure::Panic)?;
            drop(turn);
            match stopped {
                Stopped::Full => return Ok((writing, true)),
                Stopped::Done => return Ok((writing, false)),
                Stopped::Paused if writing.has_news() => return Ok((writing, true)),
                Stopped::Paused if began.elapsed() > self.patience => {
                    return Err(Failure::Fruitless(self.patience));
                }
                Stopped::Paused => {}
            }
        }
    }
}

/// The parts of an answer: first what is written, then the rest. An answer that ends early must not
/// look whole.
pub(super) fn parts(mut writing: Writing, pace: Pace) -> impl Stream<Item = io::Result<Bytes>> {
    let first = Some(writing.take(PART));
    let mut ahead = JoinSet::new();
    ahead.spawn(pace.clone().go_on(writing));
    stream::unfold(Sending { first, ahead, pace }, Sending::next)
}

/// An answer on its way. When it is dropped, the work on it ends with the step at hand.
struct Sending {
    first: Option<Bytes>,
    /// The part being made; empty when all are.
    ahead: JoinSet<Result<(Writing, bool), Failure>>,
    pace: Pace,
}

impl Sending {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        let made = self.ahead.join_next().await?.unwrap_or_else(|end| Err(Failure::Panic(end)));
        let part = match made {
            Ok((mut writing, goes_on)) => {
                let part = writing.take(PART);
                if goes_on {
                    self.ahead.spawn(self.pace.clone().go_on(writing));
                }
                Ok(part)
            }
            Err(failure) => {
                tracing::error!("an answer under way was cut short: {failure}");
                Err(io::Error::other(failure.to_string()))
            }
        };
        Some((part, self))
    }
}
