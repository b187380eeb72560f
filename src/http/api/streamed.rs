//! Bodies that are produced part by part while they are sent. Every such body is built by [`body`].

use std::convert::Infallible;
use std::fmt::Display;
use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt, TryStreamExt};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use crate::observe::request_context::RequestScope;

/// The size of a part, in bytes.
pub(in crate::http) const PART: usize = 256 * 1024;

/// A streaming body. It may be polled after its end, as compression does. The stream is dropped at
/// the end, or at the first error.
struct Streamed(Option<BoxStream<'static, Result<Bytes, BoxError>>>);

/// Creates a body from a stream of parts. If the stream fails, the body must end with an error, so
/// that the client does not take it for complete.
pub(crate) fn body<E>(parts: impl Stream<Item = Result<Bytes, E>> + Send + 'static) -> Body
where
    E: Into<BoxError> + 'static,
{
    Body::new(Streamed(Some(parts.map_err(Into::into).boxed())))
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(parts) = &mut self.0 else { return Poll::Ready(None) };
        let part = std::task::ready!(parts.poll_next_unpin(context));
        if !matches!(part, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(part.map(|part| part.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

/// A body that was cut off.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(in crate::http) struct BrokenOff {
    /// The reason label in metrics.
    pub(in crate::http) reason: &'static str,
    detail: String,
}

impl BrokenOff {
    /// The client did not receive the response in time.
    pub(in crate::http) fn slow_client(detail: String) -> Self {
        Self { reason: "slow_client", detail }
    }
}

/// Reason why a body is cut off.
#[derive(Debug, thiserror::Error)]
pub(in crate::http) enum CutShort<E> {
    #[error("{0}")]
    Failed(E),
    #[error("the client had not received it after {0:?}")]
    SlowClient(Duration),
    #[error("{0}")]
    Panic(JoinError),
}

impl<E: Display> From<CutShort<E>> for BrokenOff {
    fn from(why: CutShort<E>) -> Self {
        let detail = why.to_string();
        match why {
            CutShort::Failed(_) => Self { reason: "failed", detail },
            CutShort::SlowClient(_) => Self::slow_client(detail),
            CutShort::Panic(_) => Self { reason: "panic", detail },
        }
    }
}

/// The client has disconnected.
#[derive(Debug, thiserror::Error)]
#[error("the client has disconnected")]
pub(in crate::http) struct ClientGone;

/// Channel for the parts of a body. Up to three parts are in memory: the one being sent, one in the
/// channel, and the next.
pub(in crate::http) struct Parts(mpsc::Sender<Bytes>);

impl Parts {
    /// Sends a part, once the channel has room.
    ///
    /// # Errors
    /// The client has disconnected.
    pub(in crate::http) async fn send(&self, part: Bytes) -> Result<(), ClientGone> {
        self.0.send(part).await.map_err(|_| ClientGone)
    }

    /// Sends a part, if the channel has room within `patience`. Returns whether it was sent.
    ///
    /// # Errors
    /// The client has disconnected.
    pub(in crate::http) async fn send_within(
        &self,
        part: Bytes,
        patience: Duration,
    ) -> Result<bool, ClientGone> {
        match tokio::time::timeout(patience, self.send(part)).await {
            Ok(sent) => sent.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

/// A body produced by a task. The task ends when this, or the body, is dropped.
pub(in crate::http) struct Making<E> {
    parts: mpsc::Receiver<Bytes>,
    task: JoinSet<Result<(), CutShort<E>>>,
}

impl<E: Display + Send + 'static> Making<E> {
    /// Starts a task that produces a body within `most`, in the current scope.
    pub(in crate::http) fn begin<F>(most: Duration, work: impl FnOnce(Parts) -> F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let (sender, parts) = mpsc::channel(1);
        let work = tokio::time::timeout(most, work(Parts(sender)));
        let work = async move {
            match work.await {
                Ok(done) => done.map_err(CutShort::Failed),
                Err(_) => Err(CutShort::SlowClient(most)),
            }
        };
        let mut task = JoinSet::new();
        task.spawn(RequestScope::current().during(work));
        Self { parts, task }
    }

    /// Returns the next part, or the reason why the body is cut off.
    pub(in crate::http) async fn next(&mut self) -> Option<Result<Bytes, CutShort<E>>> {
        if let Some(part) = self.parts.recv().await {
            return Some(Ok(part));
        }
        match self.task.join_next().await? {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(Err(why)),
            Err(panic) => Some(Err(CutShort::Panic(panic))),
        }
    }

    /// Returns the body: a first part, and the parts to come.
    pub(in crate::http) fn body(self, first: Bytes) -> Body {
        let rest = stream::unfold(self, |mut making| async {
            Some((making.next().await?.map_err(BrokenOff::from), making))
        });
        body(stream::once(ready(Ok(first))).chain(rest))
    }
}

/// Creates a body whose parts are cheap, so they are produced when polled. An empty part ends it.
pub(in crate::http) fn made_at_once(mut next: impl FnMut() -> Bytes + Send + 'static) -> Body {
    body(stream::unfold((), move |()| {
        let part = next();
        async {
            // Let other tasks run between two parts.
            tokio::task::yield_now().await;
            (!part.is_empty()).then_some((Ok::<_, Infallible>(part), ()))
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use axum::body::{Body, Bytes, HttpBody};
    use futures_util::stream;
    use http_body_util::BodyExt;

    use super::{Making, body, made_at_once};

    /// Reads a body to its end or error. Polls it three more times, and expects the end each time.
    async fn read(mut body: Body) -> Result<String, String> {
        let (mut text, mut error) = (String::new(), None);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap()),
                Err(why) => error = Some(why.to_string()),
            }
        }
        for _ in 0..3 {
            assert!(body.frame().await.is_none());
        }
        assert!(body.is_end_stream());
        error.map_or(Ok(text), Err)
    }

    /// A stream that panics when polled after its end, and fails after an error.
    fn steps(
        ending: Option<&'static str>,
    ) -> impl stream::Stream<Item = Result<Bytes, &'static str>> {
        stream::unfold(0, move |step| async move {
            match (step, ending) {
                (0, _) => Some((Ok(Bytes::from("a")), 1)),
                (_, Some(why)) => Some((Err(why), 2)),
                (_, None) => None,
            }
        })
    }

    #[tokio::test]
    async fn a_body_stays_ended_after_its_end_and_after_its_error() {
        assert_eq!(read(body(steps(None))).await.unwrap(), "a");
        assert_eq!(read(body(steps(Some("broken")))).await.unwrap_err(), "broken");
        let mut parts = ["", "b", "a"].map(Bytes::from).to_vec();
        assert_eq!(read(made_at_once(move || parts.pop().unwrap())).await.unwrap(), "ab");
        let layers = |inner| Body::new(Body::new(inner).map_frame(|frame| frame));
        assert_eq!(read(layers(body(steps(None)))).await.unwrap(), "a");
    }

    #[tokio::test]
    async fn a_body_in_the_making_ends_with_its_task() {
        let most = Duration::from_mins(1);
        let begin = |ending: Option<&'static str>| {
            Making::<&'static str>::begin(most, move |parts| async move {
                parts.send("b".into()).await.unwrap();
                parts.send("c".into()).await.unwrap();
                ending.map_or(Ok(()), Err)
            })
        };
        assert_eq!(read(begin(None).body("a".into())).await.unwrap(), "abc");
        assert_eq!(read(begin(Some("broken")).body("a".into())).await.unwrap_err(), "broken");
        let panics = Making::<&'static str>::begin(most, async |_| panic!("a bug"));
        let error = read(panics.body("a".into())).await.unwrap_err();
        assert!(error.contains("a bug"), "{error}");
        let slow = Making::<&'static str>::begin(Duration::ZERO, async |_| pending().await);
        let error = read(slow.body("a".into())).await.unwrap_err();
        assert!(error.contains("0ns"), "{error}");
    }
}
