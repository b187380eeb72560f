//! The unread rest of a request body.
//!
//! Many responses do not need the body: an invalid token, an unknown path, a route without a body.
//! Its bytes still arrive before the next request of the connection. They are read and discarded up
//! to a limit; beyond it the connection is closed after the response.

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

/// Timeout for the rest of a body. A client either sends it at once or is waiting for something
/// that will not come.
const REST_TIME_MAX: Duration = Duration::from_secs(5);

/// Limits for discarding bodies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// In bytes; for a chunked body, the content only.
    pub(in crate::http) bytes: usize,
    pub(in crate::http) time: Duration,
}

impl Bounds {
    /// Limits for a server that reads bodies of at most `bytes` within `time`.
    pub(crate) fn of(bytes: usize, time: Duration) -> Self {
        Self { bytes, time: time.min(REST_TIME_MAX) }
    }
}

/// State of a body when its reader is done.
#[derive(Debug)]
enum BodyState {
    /// Read to its end.
    Read,
    /// Incomplete, or its framing is invalid.
    Broken,
    /// Dropped before its end. `polled`: its reader has polled it.
    Left { body: Body, polled: bool },
}

/// A request body that is handed back when its reader drops it.
struct TrackedBody {
    body: Option<Body>,
    polled: bool,
    broken: bool,
    back: Option<oneshot::Sender<BodyState>>,
}

/// The body of a request in progress.
pub(in crate::http) struct UnreadBody {
    back: oneshot::Receiver<BodyState>,
    /// Whether the client waits for `100 Continue`.
    expects: bool,
}

/// Wraps the body of a request so that it is handed back. Returns `None` if there is no body.
pub(in crate::http) fn track(request: Request) -> (Request, Option<UnreadBody>) {
    if request.body().is_end_stream() {
        return (request, None);
    }
    let expects = expects_a_word(request.headers());
    let (back, returned) = oneshot::channel();
    let request = request.map(|body| {
        Body::new(TrackedBody { body: Some(body), polled: false, broken: false, back: Some(back) })
    });
    (request, Some(UnreadBody { back: returned, expects }))
}

fn expects_a_word(headers: &HeaderMap) -> bool {
    let expect = headers.get(header::EXPECT);
    expect.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

impl UnreadBody {
    /// Discards the rest of the body if its reader has dropped it. Returns whether the next request
    /// can follow; otherwise the connection must be closed.
    pub(in crate::http) async fn discard(mut self, bounds: Bounds) -> bool {
        match self.back.try_recv() {
            Ok(BodyState::Read) => true,
            // Polling the body now would send `100 Continue`.
            Ok(BodyState::Left { polled: false, .. }) if self.expects => false,
            Ok(BodyState::Left { body, .. }) => {
                tokio::time::timeout(bounds.time, discard(body, bounds.bytes)).await == Ok(true)
            }
            // The reader still holds the body after the response, so the end of the request is
            // unknown.
            Ok(BodyState::Broken) | Err(_) => false,
        }
    }
}

/// Discards a body of at most `most` bytes. Returns whether its end was reached.
async fn discard(mut body: Body, most: usize) -> bool {
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    let mut length = 0_u64;
    while length.saturating_add(body.size_hint().lower()) <= most {
        match body.frame().await {
            None => return true,
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                length = length.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
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
        self.polled = true;
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
            Some(body) if !body.is_end_stream() => BodyState::Left { body, polled: self.polled },
            Some(_) | None => BodyState::Read,
        };
        if let Some(back) = self.back.take() {
            // The receiver is gone when the connection is closed.
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
