//! Answers that take their time: work goes to threads beside those that serve requests, part by
//! part and in turns, so that however many there are the others are served.
//!
//! Between parts nothing is held but the answer itself, which keeps a world in memory. So there is a
//! bounded number of such answers, and each has a bounded time, however slowly its client takes it in.

use std::time::Duration;

use axum::body::Body;
use metrics::counter;
use tokio::task::JoinError;
use tracing::Instrument as _;

use super::response::{Stopped, Writing};
use crate::fairness::turns::{Asker, QueueFull, Turn, Turns};
use crate::fairness::watch::Watch;
use crate::http::api::streamed::{Making, PART, Parts};
use crate::http::app::App;
use crate::observe::metrics::variant;
use crate::observe::spans::{self, span};

/// How an answer is worked on.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    turns: Turns,
    asker: Asker,
    watch: Watch,
    /// How long a search may go on without finding anything.
    max_wait: Duration,
    /// How long the whole of an answer may take.
    whole: Duration,
}

/// Why there will be no more of an answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The search went on for that long without finding anything.
    #[error("the search found nothing for {0:?} (--search-timeout)")]
    SearchTimeout(Duration),
    /// Others wait for their turns, and too many of them.
    #[error("{0}")]
    QueueFull(#[from] QueueFull),
    /// It panicked.
    #[error("{0}")]
    Panic(JoinError),
}

impl Pace {
    /// As the operator chose, in the turns of a project.
    pub(super) fn of(app: &App, asker: Asker) -> Self {
        Self {
            turns: app.search_turns.clone(),
            asker,
            watch: app.watch.clone(),
            max_wait: app.options.search_timeout,
            whole: app.options.stream_timeout,
        }
    }

    /// Does something beside the threads that serve requests, in a turn.
    pub(super) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = self.turns.turn(self.asker).instrument(span!("queue")).await?;
        spans::spawn_blocking_holding(turn, work).await.map_err(Failure::Panic)
    }

    /// Goes on until there is something to send or all is written. Gives the answer back with
    /// whether it goes on.
    pub(super) async fn go_on(self, writing: Writing) -> Result<(Writing, bool), Failure> {
        self.try_go_on(writing).await.inspect_err(|failure| {
            counter!("berth_candidate_searches_cut_short_total", "reason" => variant(failure))
                .increment(1);
        })
    }

    async fn try_go_on(self, mut writing: Writing) -> Result<(Writing, bool), Failure> {
        let began = self.watch.now();
        loop {
            let stopped;
            (writing, stopped) = self
                .aside(move || {
                    let stopped = writing.write(PART);
                    (writing, stopped)
                })
                .await?;
            match stopped {
                Stopped::Full => return Ok((writing, true)),
                Stopped::Done => return Ok((writing, false)),
                Stopped::Paused if writing.has_news() => return Ok((writing, true)),
                Stopped::Paused if self.watch.now() - began > self.max_wait => {
                    return Err(Failure::SearchTimeout(self.max_wait));
                }
                Stopped::Paused => {}
            }
        }
    }
}

/// The body of an answer: first what is written, then the rest. It has its seat until the last part is made.
pub(super) fn body(mut writing: Writing, pace: Pace, seat: Turn) -> Body {
    let first = writing.take(PART);
    let making = Making::begin(pace.whole, |parts| async move {
        let made = make(writing, pace, parts).await;
        drop(seat);
        made
    });
    making.body(first)
}

/// Makes part after part, while the client takes them in.
async fn make(mut writing: Writing, pace: Pace, parts: Parts) -> Result<(), Failure> {
    let mut goes_on = true;
    while goes_on {
        (writing, goes_on) = pace.clone().go_on(writing).await?;
        if parts.send(writing.take(PART)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
