//! Yields the thread between the frames of a compressed body.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Response, header};
use hyper::body::{Frame, SizeHint};

/// Maximum number of frames that are compressed before the task yields. A frame has some kilobytes, and
/// compressing it may read many times as much.
const FRAMES: u8 = 2;

/// A compressed body. Without yielding, hyper would poll it for as long as the client reads, and other
/// requests on the same thread would wait.
struct Paced<B> {
    body: B,
    /// Number of frames since the task yielded.
    frames: u8,
}

/// Wraps the body of a response if it is compressed.
pub(in crate::http) fn pace<B>(response: Response<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    if response.headers().contains_key(header::CONTENT_ENCODING) {
        response.map(|body| Body::new(Paced { body, frames: 0 }))
    } else {
        response.map(Body::new)
    }
}

impl<B: HttpBody + Unpin> HttpBody for Paced<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        if self.frames >= FRAMES {
            self.frames = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.frames = if polled.is_ready() { self.frames + 1 } else { 0 };
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
