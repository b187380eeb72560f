//! The listener: accepts connections, bounds them in number and time, and lets them finish when it
//! is told to stop.
//!
//! Built on hyper by hand because a server without a timer has no working time-outs.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;

use super::App;
use super::unreadable::Explained;

/// The longest request head: room for URLs of 64 KiB and the headers beside them.
const HEAD_BYTES_MAX: usize = 128 * 1024;
/// How long the listener rests when the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections open at once; further ones wait to be accepted.
    pub connections: usize,
    /// How long a client has for the head of a request, and may keep a connection idle.
    pub header_timeout: Duration,
    /// How long a client has to take in each part of an answer.
    pub write_timeout: Duration,
    /// How long requests in flight have to finish once told to stop.
    pub shutdown_grace: Duration,
}

/// Serves until `stop` is ready, then finishes what is in flight within the grace period.
pub async fn serve(
    listener: TcpListener,
    app: App,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(bounds.connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            () = &mut stop => break,
        };
        let Some((stream, permit)) = accepted else { continue };
        let app = app.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let request: Request = request.map(Body::new);
            let answer = super::answer(app.clone(), request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(Explained::new(patient(stream, bounds))), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(bounds.shutdown_grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still in flight after {:?}", bounds.shutdown_grace);
    }
}

/// A connection that gives up on a client that does not take in its answer.
fn patient(stream: TcpStream, bounds: Bounds) -> Pin<Box<TimeoutStream<TcpStream>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(bounds.write_timeout));
    Box::pin(stream)
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Answers are written whole; waiting for more to send only delays them.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "no TCP_NODELAY");
            }
            Some((stream, permit))
        }
        Err(error) => {
            tracing::warn!(%error, "accepting a connection failed");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
