//! Responses to requests that cannot be parsed as HTTP.
//!
//! hyper refuses these before any handler, with a status and without a body, and has no hook for
//! one. This stream recognises such a response in the output of the connection, and writes one with
//! an error body in its place. It cannot mistake a response of a handler for one, because all
//! errors of handlers have bodies.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use uuid::Uuid;

use crate::http::connection::WriteError;
use crate::http::edge::activity::Activity;

/// Statuses of the responses that hyper makes, with the details for their bodies.
const REFUSALS: [(StatusCode, &str); 3] = [
    (
        StatusCode::BAD_REQUEST,
        "The request cannot be read: its first line, a header or the framing of its body is \
         malformed. Among other rules, the content-length header must be an integer and must not \
         stand beside transfer-encoding, which must be \"chunked\".",
    ),
    (StatusCode::URI_TOO_LONG, "The path and query of the request are too long."),
    (
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "The headers of the request are too many or too long.",
    ),
];

/// A header that only responses without a body have.
const EMPTY: &[u8] = b"\r\ncontent-length: 0\r\n";

/// A connection that adds bodies to the errors of hyper.
#[derive(Debug)]
pub(in crate::http) struct WithErrorBodies<S> {
    stream: S,
    activity: Arc<Activity>,
    write_error: WriteError,
    /// The response that replaces hyper's, and the number of its bytes written so far.
    replacement: Option<(Vec<u8>, usize)>,
}

impl<S> WithErrorBodies<S> {
    pub(in crate::http) fn new(
        stream: S,
        activity: Arc<Activity>,
        write_error: WriteError,
    ) -> Self {
        Self { stream, activity, write_error, replacement: None }
    }
}

/// Returns the response with a body if these bytes are a response of hyper without one.
fn with_body(response: &[u8], write_error: WriteError) -> Option<Vec<u8>> {
    let status_line = |status: StatusCode| format!("HTTP/1.1 {status}\r\n");
    let mut refusals = REFUSALS.iter();
    let (status, detail) =
        refusals.find(|(status, _)| response.starts_with(status_line(*status).as_bytes()))?;
    if !response.ends_with(b"\r\n\r\n") || !response.windows(EMPTY.len()).any(|part| part == EMPTY)
    {
        return None;
    }
    let id = format!("req-{}", Uuid::new_v4());
    let (content_type, body) = write_error(*status, detail, &id);
    let response = format!(
        "{}connection: close\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\
         x-openstack-request-id: {id}\r\nx-content-type-options: nosniff\r\n\r\n{body}",
        status_line(*status),
        body.len()
    );
    Some(response.into_bytes())
}

impl<S: AsyncWrite + Unpin> WithErrorBodies<S> {
    /// Writes the rest of the replacement.
    fn poll_replacement(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some((response, written)) = &mut self.replacement {
            let rest = response.get(*written..).unwrap_or_default();
            if rest.is_empty() {
                self.replacement = None;
                break;
            }
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => *written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WithErrorBodies<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(response) = with_body(bytes, self.write_error) {
            self.replacement = Some((response, 0));
            self.activity.linger();
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = slices {
            return self.poll_write(cx, only);
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_replacement(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_replacement(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithErrorBodies<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}
