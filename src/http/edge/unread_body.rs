//! What is left of a request's body when its answer is ready.
//!
//! Many answers need no body: an unknown token, a wrong path, a route that takes none. Its bytes
//! still arrive, and the next request of the connection stands behind them. They are read and
//! thrown away, within bounds; beyond those the answer says that the connection ends with it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;

/// How long the rest of a body may take to arrive. A client sends it at once, or waits for
/// something that will not come.
const REST_TIME_MAX: Duration = Duration::from_secs(5);

/// How much of a body is read for nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// In bytes; of a chunked body, in bytes of its content.
    pub(in crate::http) bytes: usize,
    /// In time.
    pub(in crate::http) time: Duration,
}

impl Bounds {
    /// What a server reads for nothing that reads bodies of so many bytes within this time.
    pub(crate) fn of(bytes: usize, time: Duration) -> Self {
        Self { bytes, time: time.min(REST_TIME_MAX) }
    }
}

/// What became of a body.
#[derive(Debug)]
enum BodyState {
    /// It has been read.
    Read,
    /// It broke off, or its framing is wrong.
    Broken,
    /// It was dropped before its end. `begun`: somebody asked for a part of it.
    Left { body: Body, begun: bool },
}

/// A request's body, to be handed back when its reader drops it.
struct TrackedBody {
    body: Option<Body>,
    begun: bool,
    broken: bool,
    back: Option<oneshot::Sender<BodyState>>,
}

/// The body of a request that is being answered.
pub(in crate::http) struct UnreadBody {
    back: oneshot::Receiver<BodyState>,
    /// Whether the client waits for a word before it sends the body.
    expects: bool,
}

/// The request with a body that is handed back, and where. `None`: it has no body.
pub(in crate::http) fn track(request: Request) -> (Request, Option<UnreadBody>) {
    if request.body().is_end_stream() {
        return (request, None);
    }
    let expects = expects_a_word(request.headers());
    let (back, returned) = oneshot::channel();
    let request = request.map(|body| {
        Body::new(TrackedBody { body: Some(body), begun: false, broken: false, back: Some(back) })
    });
    (request, Some(UnreadBody { back: returned, expects }))
}

fn expects_a_word(headers: &HeaderMap) -> bool {
    let expect = headers.get(header::EXPECT);
    expect.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

impl UnreadBody {
    /// Reads the rest of the body, if its reader has dropped it. Says whether the connection is at
    /// the end of the request; otherwise it must be closed.
    pub(in crate::http) async fn discard(mut self, bounds: Bounds) -> bool {
        match self.back.try_recv() {
            Ok(BodyState::Read) => true,
            // To ask for the body now would be to promise that it counts.
            Ok(BodyState::Left { begun: false, .. }) if self.expects => false,
            Ok(BodyState::Left { body, .. }) => {
                tokio::time::timeout(bounds.time, discard(body, bounds.bytes)).await == Ok(true)
            }
            // Its reader has it still, after the answer: nobody knows where the request ends.
            Ok(BodyState::Broken) | Err(_) => false,
        }
    }
}

/// Reads a body of so many bytes at the most. Says whether its end was reached.
async fn discard(mut body: Body, most: usize) -> bool {
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    let mut seen = 0_u64;
    while seen.saturating_add(body.size_hint().lower()) <= most {
        match body.frame().await {
            None => return true,
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                seen = seen.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            }
            Some(Err(_)) => return false,
        }
    }
    false
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.begun = true;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(body).poll_frame(cx));
        match &frame {
            None => self.body = None,
            Some(Err(_)) => self.broken = true,
            Some(Ok(_)) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        let fate = match self.body.take() {
            _ if self.broken => BodyState::Broken,
            Some(body) if !body.is_end_stream() => BodyState::Left { body, begun: self.begun },
            Some(_) | None => BodyState::Read,
        };
        if let Some(back) = self.back.take() {
            // Nobody wants it when the connection has gone.
            drop(back.send(fate));
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, Bytes};
    use axum::extract::Request;
    use futures_util::stream;
    use http_body_util::BodyExt;

    use super::track;
    use crate::http::api::streamed;

    #[tokio::test]
    async fn a_body_stays_ended() {
        let part = stream::iter([Ok::<_, axum::Error>(Bytes::from("a"))]);
        let (request, _unread) = track(Request::new(streamed::body(part)));
        let mut body: Body = request.into_body();
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.is_none() && body.frame().await.is_none());
    }
}
