//! Answers to requests that cannot be read as HTTP at all.
//!
//! hyper refuses those by itself, before any handler, with a status and no body, and has no place to
//! say more. A client deserves to be told what is wrong in the shape of every other error, so the
//! connection's output is watched for such an answer, and an answer with a body is written instead. An
//! answer of ours is never taken for one: all our errors have bodies.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use uuid::Uuid;

use crate::http::connection::WriteError;
use crate::http::edge::activity::Activity;

/// Statuses that hyper answers with by itself, and what we have to say to them.
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

/// A header that only answers without a body have.
const EMPTY: &[u8] = b"\r\ncontent-length: 0\r\n";

/// A connection whose bare refusals get a body.
#[derive(Debug)]
pub(in crate::http) struct WithErrorBodies<S> {
    stream: S,
    activity: Arc<Activity>,
    write_error: WriteError,
    /// What is written in the place of a bare refusal, and how much of it has been.
    words: Option<(Vec<u8>, usize)>,
}

impl<S> WithErrorBodies<S> {
    pub(in crate::http) fn new(
        stream: S,
        activity: Arc<Activity>,
        write_error: WriteError,
    ) -> Self {
        Self { stream, activity, write_error, words: None }
    }
}

/// The answer to give instead, if these bytes are a bare refusal.
fn instead(answer: &[u8], write_error: WriteError) -> Option<Vec<u8>> {
    let status_line = |status: StatusCode| format!("HTTP/1.1 {status}\r\n");
    let mut refusals = REFUSALS.iter();
    let (status, detail) =
        refusals.find(|(status, _)| answer.starts_with(status_line(*status).as_bytes()))?;
    if !answer.ends_with(b"\r\n\r\n") || !answer.windows(EMPTY.len()).any(|part| part == EMPTY) {
        return None;
    }
    let id = format!("req-{}", Uuid::new_v4());
    let (content_type, body) = write_error(*status, detail, &id);
    let answer = format!(
        "{}connection: close\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\
         x-openstack-request-id: {id}\r\nx-content-type-options: nosniff\r\n\r\n{body}",
        status_line(*status),
        body.len()
    );
    Some(answer.into_bytes())
}

impl<S: AsyncWrite + Unpin> WithErrorBodies<S> {
    /// Writes what stands in the place of a refusal.
    fn poll_words(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some((words, written)) = &mut self.words {
            let rest = words.get(*written..).unwrap_or_default();
            if rest.is_empty() {
                self.words = None;
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
        if let Some(words) = instead(bytes, self.write_error) {
            self.words = Some((words, 0));
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
        std::task::ready!(self.poll_words(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_words(cx))?;
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
