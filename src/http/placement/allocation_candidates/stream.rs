//! Answers that take their time: work goes to threads beside those that serve requests, part by
//! part and in turns, so that however many there are the others are served.
//!
//! Between parts nothing is held but the answer itself, which keeps a world in memory. So there is a
//! bounded number of such answers, and each has a bounded time, however slowly its client takes it in.
//! One part is made ahead of the client.

use std::io;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::{Stream, stream};
use metrics::{SharedString, counter};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tracing::Instrument as _;

use super::response::{Stopped, Writing};
use crate::http::app::App;
use crate::metrics::variant;
use crate::spans::{self, span};
use crate::turns::{Asker, QueueFull, Turn, Turns};
use crate::watch::Watch;

/// The size of a part, in bytes.
pub(super) const PART: usize = 256 * 1024;

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
        self.try_go_on(writing).await.inspect_err(|failure| count_cut_short(variant(failure)))
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

fn count_cut_short(reason: impl Into<SharedString>) {
    counter!("berth_candidate_searches_cut_short_total", "reason" => reason.into()).increment(1);
}

/// The parts of an answer: first what is written, then the rest. An answer that ends early must not
/// look whole. It has its seat until the last part is made.
pub(super) fn parts(
    mut writing: Writing,
    pace: Pace,
    seat: Turn,
) -> impl Stream<Item = io::Result<Bytes>> {
    let first = Some(writing.take(PART));
    let (ready, parts) = mpsc::channel(1);
    let mut work = JoinSet::new();
    let making = async move {
        let whole = pace.whole;
        if tokio::time::timeout(whole, make(writing, pace, ready)).await.is_err() {
            count_cut_short("slow_client");
            tracing::warn!("a client had not taken in its candidates after {whole:?}: cut short");
        }
        drop(seat);
    };
    work.spawn(making.in_current_span());
    stream::unfold(Sending { first, parts, ended: false, _work: work }, Sending::next)
}

/// A part, and whether it is the last.
type Part = (io::Result<Bytes>, bool);

/// Makes part after part, each when the client has taken the one before the last.
async fn make(mut writing: Writing, pace: Pace, ready: mpsc::Sender<Part>) {
    while let Ok(room) = ready.reserve().await {
        match pace.clone().go_on(writing).await {
            Ok((more, goes_on)) => {
                writing = more;
                room.send((Ok(writing.take(PART)), !goes_on));
                if !goes_on {
                    return;
                }
            }
            Err(failure) => {
                tracing::error!("an answer under way was cut short: {failure}");
                room.send((Err(io::Error::other(failure.to_string())), true));
                return;
            }
        }
    }
}

/// An answer on its way. When it is dropped, the work on it ends with the step at hand.
struct Sending {
    first: Option<Bytes>,
    parts: mpsc::Receiver<Part>,
    /// Whether the last part has been sent.
    ended: bool,
    /// Makes the parts.
    _work: JoinSet<()>,
}

impl Sending {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        if self.ended {
            return None;
        }
        let cut_short = || (Err(io::Error::other("the answer was cut short")), true);
        let (part, is_last) = self.parts.recv().await.unwrap_or_else(cut_short);
        self.ended = is_last;
        Some((part, self))
    }
}
