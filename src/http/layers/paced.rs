//! Bodies that take work to send: they let others have the thread now and then.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Response, header};
use hyper::body::{Frame, SizeHint};

/// So many frames of a compressed body are made in a row. A frame is some kilobytes, for which many times
/// as much may have to be compressed.
const FRAMES: u8 = 2;

/// A compressed body. Whoever sends it asks for frames as long as the client takes them in, on a thread
/// that serves others meanwhile.
struct Paced<B> {
    body: B,
    /// Frames made since others had the thread.
    frames: u8,
}

/// Paces the body of an answer if it is compressed.
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
