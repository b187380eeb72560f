//! The listeners: accept connections, bound them in number and time, and let them finish when told
//! to stop.
//!
//! Built on hyper by hand because a server without a timer has no working time-outs.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

use super::listener::{Accepted, Listener, Peer};
use super::tls::{self, Tls};
use super::unreadable::Explained;
use super::{Api, App, Connection};

/// The longest request head: room for URLs of 64 KiB and the headers beside them.
const HEAD_BYTES_MAX: usize = 128 * 1024;
/// How long the listeners rest when the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections open at once; further ones wait to be accepted.
    pub connections: usize,
    /// How long a client has to agree on TLS, then for the head of a request, and may keep a
    /// connection idle.
    pub header_timeout: Duration,
    /// How long a client has to take in each part of an answer.
    pub write_timeout: Duration,
    /// How long requests in flight have to finish once told to stop.
    pub shutdown_grace: Duration,
}

/// Where requests come from.
#[derive(Debug)]
pub struct Front {
    /// What is listened on, and for which API.
    pub listeners: Vec<(Api, Listener)>,
    /// TLS of the connections that come by TCP, if they have it.
    pub tls: Option<Arc<Tls>>,
}

/// Serves until `stop` is ready, then finishes what is in flight within the grace period.
pub async fn serve(front: Front, app: App, bounds: Bounds, stop: impl Future<Output = ()>) {
    let Front { listeners, tls } = front;
    let graceful = GracefulShutdown::new();
    let (closing, is_closing) = watch::channel(());
    let room = Arc::new(Semaphore::new(bounds.connections));
    let mut next = 0;
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listeners, &mut next, &room) => accepted,
            () = &mut stop => break,
        };
        let Some(Visitor { api, accepted, permit }) = accepted else { continue };
        let peer = peer(&accepted);
        let secure = tls.is_some() && matches!(peer, Peer::Tcp(_));
        let connection = Connection { api, peer, secure };
        let keeper = Keeper { app: app.clone(), bounds, connection, watcher: graceful.watcher() };
        let (tls, is_closing) = (tls.clone(), is_closing.clone());
        tokio::spawn(async move {
            match (accepted, tls) {
                (Accepted::Tcp(stream, _), None) => keeper.keep(stream).await,
                (Accepted::Unix(stream), _) => keeper.keep(stream).await,
                (Accepted::Tcp(stream, _), Some(tls)) => {
                    keeper.secure(&tls, stream, is_closing).await;
                }
            }
            drop(permit);
        });
    }
    // Removes the files of Unix sockets, so that the next server finds the place free.
    drop(listeners);
    drop(closing);
    if tokio::time::timeout(bounds.shutdown_grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still in flight after {:?}", bounds.shutdown_grace);
    }
}

/// Serves one connection.
struct Keeper {
    app: App,
    bounds: Bounds,
    connection: Connection,
    watcher: Watcher,
}

impl Keeper {
    /// Agrees on TLS, then serves; gives up when told to stop before that.
    async fn secure(
        self,
        tls: &Tls,
        stream: tokio::net::TcpStream,
        mut is_closing: watch::Receiver<()>,
    ) {
        let agreed = tokio::select! {
            agreed = tls::agree(tls.accept(stream), self.bounds.header_timeout) => agreed,
            _ = is_closing.changed() => return,
        };
        match agreed {
            Ok(stream) => self.keep(stream).await,
            Err(error) => {
                let remote = self.connection.peer;
                tracing::debug!(%error, %remote, "no TLS was agreed on");
            }
        }
    }

    async fn keep<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let Self { app, bounds, connection, watcher } = self;
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let request: Request = request.map(Body::new);
            let answer = super::answer(connection, app.clone(), request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(Explained::new(patient(stream, bounds))), service);
        if let Err(error) = watcher.watch(served).await {
            tracing::debug!(%error, remote = %connection.peer, "a connection ended early");
        }
    }
}

/// A connection that gives up on a client that does not take in its answer.
fn patient<S: AsyncRead + AsyncWrite>(stream: S, bounds: Bounds) -> Pin<Box<TimeoutStream<S>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(bounds.write_timeout));
    Box::pin(stream)
}

fn peer(accepted: &Accepted) -> Peer {
    match accepted {
        Accepted::Tcp(_, address) => Peer::Tcp(*address),
        Accepted::Unix(_) => Peer::Unix,
    }
}

/// A connection that has come.
struct Visitor {
    api: Api,
    accepted: Accepted,
    /// Its place among those that are open.
    permit: OwnedSemaphorePermit,
}

/// The next connection, once there is room for it.
async fn accept(
    listeners: &[(Api, Listener)],
    next: &mut usize,
    room: &Arc<Semaphore>,
) -> Option<Visitor> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match poll_fn(|cx| poll_any(listeners, next, cx)).await {
        Ok((api, accepted)) => {
            if let Accepted::Tcp(stream, _) = &accepted
                // Answers are written whole; waiting for more to send only delays them.
                && let Err(error) = stream.set_nodelay(true)
            {
                tracing::debug!(%error, "no TCP_NODELAY");
            }
            Some(Visitor { api, accepted, permit })
        }
        Err(error) => {
            tracing::warn!(%error, "accepting a connection failed");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Asks all listeners, and first the one after that which had the last connection: none starves.
fn poll_any(
    listeners: &[(Api, Listener)],
    next: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<(Api, Accepted)>> {
    let (before, from) = listeners.split_at_checked(*next).unwrap_or((&[], listeners));
    for (nth, (api, listener)) in from.iter().chain(before).enumerate() {
        if let Poll::Ready(accepted) = listener.poll_accept(cx) {
            *next = (*next + nth + 1) % listeners.len().max(1);
            return Poll::Ready(accepted.map(|accepted| (*api, accepted)));
        }
    }
    Poll::Pending
}
