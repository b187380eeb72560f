//! The stream of a connection. It reports to the [`Activity`], stays open while the client may
//! still be sending, and hides a half-close from hyper until the requests are handled.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep};

use crate::http::edge::activity::Activity;
use crate::http::edge::framing::Framing;
use crate::http::edge::tls::Secured;

/// Limits for reading a connection after its last response.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 4 * 1024 * 1024;
/// Size of the buffer for discarded bytes.
const GULP: usize = 8 * 1024;

/// A stream of a socket.
pub(in crate::http) trait Socket:
    AsyncRead + AsyncWrite + Unpin + Send + 'static
{
    fn socket(&self) -> BorrowedFd<'_>;
}

impl Socket for TcpStream {
    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Socket for UnixStream {
    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl Socket for Secured {
    fn socket(&self) -> BorrowedFd<'_> {
        self.get_ref().0.as_fd()
    }
}

/// Returns whether a socket has bytes to read.
fn has_bytes(socket: BorrowedFd<'_>) -> bool {
    // Errors are left to the next read.
    !matches!(rustix::io::ioctl_fionread(socket), Ok(0))
}

/// Waits until the client of a half-closed connection is gone: it has reset the connection, or
/// closed a Unix socket. Over TCP a close looks like a half-close until the client resets the
/// connection in reply to a write.
async fn until_gone(socket: io::Result<OwnedFd>) {
    if let Err(error) = wait_until_gone(socket).await {
        tracing::debug!(%error, "cannot watch for a disconnect; writing the response will detect it");
        std::future::pending::<()>().await;
    }
}

async fn wait_until_gone(socket: io::Result<OwnedFd>) -> io::Result<()> {
    let socket = socket?;
    let mut state = [PollFd::new(&socket, PollFlags::empty())];
    if poll(&mut state, Some(&Timespec::default()))? > 0 {
        return Ok(());
    }
    // The runtime watches a Unix socket in the same way.
    TcpStream::from_std(socket.into())?.ready(Interest::ERROR).await.map(drop)
}

pub(in crate::http) struct Observed<S> {
    stream: S,
    activity: Arc<Activity>,
    framing: Framing,
    /// Once the client has half-closed the connection: waits until it is gone.
    half_closed: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    end: End,
}

/// State of the end of the stream.
#[derive(Debug)]
enum End {
    Open,
    /// Nothing more is written; reading continues until this time, up to this many bytes.
    Lingering(Pin<Box<Sleep>>, usize),
    Closed,
}

impl<S: Socket> Observed<S> {
    pub(in crate::http) fn new(stream: S, activity: Arc<Activity>) -> Self {
        let framing = Framing::default();
        Self { stream, activity, framing, half_closed: None, end: End::Open }
    }

    /// Reads, and reports the received bytes.
    fn poll_follow(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let (_, bytes) = buffer.filled().split_at(before);
        let came = match &read {
            Poll::Ready(_) => !bytes.is_empty(),
            // The socket may have bytes that the runtime has not been notified of.
            Poll::Pending => self.activity.is_close_requested() && has_bytes(self.stream.socket()),
        };
        if came {
            self.activity.bytes_came();
        }
        self.activity.heads_came(self.framing.follow(bytes));
        read.map_ok(|()| bytes.len())
    }

    /// Handles a half-close. It is hidden while a request with a complete body is handled, because
    /// hyper would treat it as a disconnect.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.activity.is_answering() || self.framing.is_within_body() {
            return Poll::Ready(Ok(()));
        }
        let socket = self.stream.socket();
        let gone = self
            .half_closed
            .get_or_insert_with(|| Box::pin(until_gone(socket.try_clone_to_owned())));
        ready!(gone.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }
}

impl<S: Socket> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.half_closed.is_some() {
            return self.poll_end(cx);
        }
        match ready!(self.poll_follow(cx, buffer)) {
            Ok(0) if buffer.remaining() > 0 => self.poll_end(cx),
            Ok(_) => Poll::Ready(Ok(())),
            // A TLS client closed the connection without `close_notify`.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                ready!(self.poll_end(cx))?;
                Poll::Ready(Err(error))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
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
        let is_flushed = matches!(flushed, Poll::Ready(Ok(())));
        if is_flushed && self.activity.flushed() && self.half_closed.is_some() {
            // The hidden half-close becomes visible.
            cx.waker().wake_by_ref();
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
                // Read errors no longer matter.
                let _ended = ready!(poll_discard(&mut this.stream, cx, left));
            }
            this.end = End::Closed;
        }
        Poll::Ready(Ok(()))
    }
}

/// Discards bytes up to the end, at most `left`.
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
