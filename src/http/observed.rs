//! The stream of a connection, which tells its [`Activity`] what goes over it, and does not end
//! while the client may still be sending.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep};

use super::activity::Activity;
use super::tls::Secured;

/// How long, and how many bytes, a connection is read that has had its last answer.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 4 * 1024 * 1024;
/// How much is read for nothing at once.
const GULP: usize = 8 * 1024;

/// A stream of a socket.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether bytes wait in the socket.
    fn has_bytes(&self) -> bool;
}

impl Socket for TcpStream {
    fn has_bytes(&self) -> bool {
        // An error is for whoever reads next.
        !matches!(rustix::io::ioctl_fionread(self), Ok(0))
    }
}

impl Socket for UnixStream {
    fn has_bytes(&self) -> bool {
        !matches!(rustix::io::ioctl_fionread(self), Ok(0))
    }
}

impl Socket for Secured {
    fn has_bytes(&self) -> bool {
        self.get_ref().0.has_bytes()
    }
}

/// A stream that is observed.
#[derive(Debug)]
pub(super) struct Observed<S> {
    stream: S,
    activity: Arc<Activity>,
    end: End,
}

/// How far the stream is from its end.
#[derive(Debug)]
enum End {
    Open,
    /// Nothing more is written; what comes is read until then, and so many bytes at the most.
    Lingering(Pin<Box<Sleep>>, usize),
    Closed,
}

impl<S> Observed<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, end: End::Open }
    }
}

impl<S: Socket> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let came = match &read {
            Poll::Ready(_) => buffer.filled().len() > before,
            // The runtime may not know yet what the system knows.
            Poll::Pending => self.activity.is_asked() && self.stream.has_bytes(),
        };
        if came {
            self.activity.bytes_came();
        }
        read
    }
}

impl<S: Socket> AsyncWrite for Observed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.activity.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let End::Open = this.end {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.end = if this.activity.lingers() {
                End::Lingering(Box::pin(sleep(LINGER_TIME)), LINGER_BYTES)
            } else {
                End::Closed
            };
        }
        if let End::Lingering(until, left) = &mut this.end {
            if until.as_mut().poll(cx).is_pending() {
                // The client's errors change nothing any more.
                let _ended = ready!(poll_discard(&mut this.stream, cx, left));
            }
            this.end = End::Closed;
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads until the end, or as many bytes as are left.
fn poll_discard(
    stream: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
    left: &mut usize,
) -> Poll<io::Result<()>> {
    let mut bytes = [0; GULP];
    while *left > 0 {
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer))?;
        match buffer.filled().len() {
            0 => break,
            count => *left = left.saturating_sub(count),
        }
    }
    Poll::Ready(Ok(()))
}
