//! Answers that a task makes part by part while they are sent.
//!
//! Up to three parts are in memory: the one that the client takes in, one that waits, and the next. The task ends when the client goes. An answer that ends early breaks
//! off: it must not look whole.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::{Stream, stream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::Problem;

/// The size of a part, in bytes.
pub(super) const PART: usize = 256 * 1024;

/// What the task says.
enum Message {
    Part(Bytes),
    Failed(Problem),
    /// Everything has been sent.
    End,
}

/// Where the task puts its parts.
#[derive(Clone)]
pub(super) struct Parts(mpsc::Sender<Message>);

impl Parts {
    /// Sends a part, if there is room for it to wait within `patience`. Returns whether it has.
    ///
    /// # Errors
    /// The client has gone.
    pub(super) async fn send_within(
        &self,
        part: Bytes,
        patience: Duration,
    ) -> Result<bool, Problem> {
        match tokio::time::timeout(patience, self.send(part)).await {
            Ok(sent) => sent.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Sends a part, once there is room for it to wait.
    ///
    /// # Errors
    /// The client has gone.
    pub(super) async fn send(&self, part: Bytes) -> Result<(), Problem> {
        let gone = |_| Problem::unavailable("the client has gone");
        self.0.send(Message::Part(part)).await.map_err(gone)
    }
}

/// The body of an answer that `work` makes within `most`. Waits for the first part.
///
/// # Errors
/// The work fails before its first part.
pub(super) async fn body<F>(most: Duration, work: impl FnOnce(Parts) -> F) -> Result<Body, Problem>
where
    F: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let (parts, mut messages) = mpsc::channel(1);
    let parts = Parts(parts);
    let work = work(parts.clone());
    let making = async move {
        let message = match tokio::time::timeout(most, work).await {
            Ok(Ok(())) => Message::End,
            Ok(Err(problem)) => Message::Failed(problem),
            Err(_) => {
                let why = format!("a client had not taken in its answer after {most:?}");
                Message::Failed(Problem::unavailable(why))
            }
        };
        // The client may have gone.
        drop(parts.0.send(message).await);
    };
    let mut task = JoinSet::new();
    task.spawn(making.in_current_span());
    let first = match messages.recv().await {
        Some(Message::Part(first)) => first,
        Some(Message::End) => return Ok(Body::empty()),
        Some(Message::Failed(problem)) => return Err(problem),
        None => return Err(Problem::internal("an answer ended without a word")),
    };
    let sending = Sending { first: Some(first), messages, ended: false, _task: task };
    Ok(Body::from_stream(sending.parts()))
}

/// An answer on its way. When it is dropped, the task ends.
struct Sending {
    first: Option<Bytes>,
    messages: mpsc::Receiver<Message>,
    /// Whether the last part has been sent.
    ended: bool,
    _task: JoinSet<()>,
}

impl Sending {
    fn parts(self) -> impl Stream<Item = io::Result<Bytes>> {
        stream::unfold(self, Self::next)
    }

    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        if self.ended {
            return None;
        }
        let why = match self.messages.recv().await {
            Some(Message::Part(part)) => return Some((Ok(part), self)),
            Some(Message::End) => return None,
            Some(Message::Failed(problem)) => problem.cause.unwrap_or(problem.detail),
            None => "the work on it has ended".to_owned(),
        };
        self.ended = true;
        tracing::warn!("an answer under way was cut short: {why}");
        Some((Err(io::Error::other(why)), self))
    }
}
