//! Streamed responses: work runs part by part, in turns on blocking threads, so that other requests
//! are served however many responses there are.
//!
//! Between parts only the response itself is held, which keeps a world in memory. So the number of
//! such responses is bounded, and the time of each, however slowly its client reads.

use std::time::Duration;

use axum::body::Body;
use metrics::counter;
use tokio::task::JoinError;

use super::response::{Stopped, Writing};
use crate::fairness::turns::{QueueFull, Requester, Turn, Turns};
use crate::fairness::watch::Watch;
use crate::http::api::streamed::{Making, PART, Parts};
use crate::http::app::App;
use crate::observe::metrics::variant;
use crate::observe::spans::{self, Timed, span};

/// Limits and turns of a response.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    turns: Turns,
    requester: Requester,
    watch: Watch,
    /// Maximum time without a candidate.
    max_wait: Duration,
    /// Maximum time of the whole response.
    time_max: Duration,
}

/// Reason to end a response early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The search found nothing for this long.
    #[error("the search found nothing for {0:?}")]
    SearchTimeout(Duration),
    /// Too many requests wait for a turn.
    #[error("{0}")]
    QueueFull(#[from] QueueFull),
    #[error("{0}")]
    Panic(JoinError),
}

impl Pace {
    /// Returns the configured limits, with the turns of a project.
    pub(super) fn of(app: &App, requester: Requester) -> Self {
        Self {
            turns: app.search_turns.clone(),
            requester,
            watch: app.watch.clone(),
            max_wait: app.options.search_timeout,
            time_max: app.options.stream_timeout,
        }
    }

    /// Runs work on a blocking thread, in a turn.
    pub(super) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let turn = self.turns.turn(self.requester).timed(span!("queue")).await?;
        spans::spawn_blocking_holding(turn, work).await.map_err(Failure::Panic)
    }

    /// Continues until there is something to send, or the response is complete. Returns the
    /// response, and whether it continues.
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

/// Returns the body: the bytes already written, then the rest. It keeps its seat until the last
/// part is produced.
pub(super) fn body(mut writing: Writing, pace: Pace, seat: Turn) -> Body {
    let first = writing.take(PART);
    let making = Making::begin(pace.time_max, |parts| async move {
        let made = make(writing, pace, parts).await;
        drop(seat);
        made
    });
    making.body(first)
}

/// Produces the parts, at the pace of the client.
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
