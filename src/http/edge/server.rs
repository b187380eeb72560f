//! Accepts connections, limits their number and times, and drains them at shutdown.
//!
//! Uses hyper directly, because axum's server has no timer and therefore no timeouts.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use rustix::io::Errno;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::http::admin::{self, AdminState};
use crate::http::edge::activity::Phase;
use crate::http::edge::connections::Connections;
use crate::http::edge::listener::{Accepted, Listener, Peer};
use crate::http::edge::serving::{Service, Serving};
use crate::http::edge::tls::Tls;
use crate::http::edge::unread_body;
use crate::http::{Api, Backend, Connection, WriteError};
use crate::observe::log_throttle::LogThrottle;
use crate::observe::metrics;

/// Pause of the listeners when the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Maximum time for aborted connections to end.
const CUT_MAX: Duration = Duration::from_secs(1);

/// Timeout for the TLS handshake and for the head of a request.
pub const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// Timeout for an idle connection after a response: longer than the minute between two requests of
/// nova-compute.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(2);

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of open connections. Beyond it, the connection that has been idle longest is
    /// closed; if none is idle, new ones wait to be accepted.
    pub connections: usize,
    /// Timeout for the TLS handshake, for the head of the first request, and for each further head
    /// from its first byte.
    pub header_timeout: Duration,
    /// Timeout for an idle connection after a response.
    pub idle_timeout: Duration,
    /// Timeout for the client to read the next part of a response.
    pub write_timeout: Duration,
    /// Time after the stop signal during which the server still serves, but is not ready.
    pub shutdown_delay: Duration,
    /// Maximum time for requests in progress to finish after that.
    pub shutdown_grace: Duration,
}

/// The listeners of the server.
#[derive(Debug)]
pub struct ServerListeners {
    /// Listeners with their APIs.
    pub listeners: Vec<(Api, Listener)>,
    /// TLS for TCP connections, if enabled.
    pub tls: Option<Arc<Tls>>,
    /// Listeners for metrics and health checks, without TLS.
    pub admin: Vec<Listener>,
}

/// Phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Stage {
    Open,
    /// Accepting no new requests, finishing those in progress.
    Finishing,
    /// Aborting the requests in progress.
    Over,
}

/// Serves until `stop` completes, then finishes requests in progress within the grace period. No
/// connection is open when this returns.
pub async fn serve(
    sockets: ServerListeners,
    backend: Arc<Backend>,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) {
    let ServerListeners { listeners, tls, admin } = sockets;
    let connections = Connections::new(bounds.connections);
    let of_admin = Arc::new(AdminState::new(Arc::clone(&backend), Arc::clone(&connections)));
    let admin_stage = watch::Sender::new(Stage::Open);
    // These tasks run until the end, so that `/readyz` reports the shutdown.
    let mut admin_tasks = JoinSet::new();
    if !admin.is_empty() {
        admin_tasks.spawn(admin::accept_all(
            admin,
            Arc::clone(&of_admin),
            bounds,
            admin_stage.clone(),
        ));
        metrics::collect();
        admin_tasks.spawn(metrics::keep_up());
    }
    let stage = watch::Sender::new(Stage::Open);
    let serving = async {
        let mut listeners = Listeners::new(listeners);
        loop {
            let (api, accepted) = listeners.next(&connections).await;
            let slot = connections.enter(Phase::Fresh).await;
            let peer = peer(&accepted);
            let secure = tls.is_some() && matches!(peer, Peer::Tcp(_));
            let connection = Connection { api, peer, secure };
            let service = ApiService { backend: Arc::clone(&backend), connection };
            let serving = Serving { service, bounds, slot, stage: stage.subscribe() };
            tokio::spawn(serving.serve(accepted, tls.clone()));
        }
    };
    // Either way the listeners are closed here. This removes the files of Unix sockets, so that the
    // next server can bind them.
    tokio::select! {
        () = serving => {}
        () = until_balancers_know(stop, &backend, bounds.shutdown_delay) => {}
    }
    finish(&stage, &connections, bounds.shutdown_grace).await;
    admin_stage.send_replace(Stage::Over);
}

/// Serves another service than the APIs until `stop` completes, then finishes requests in progress
/// within the grace period. `service` creates the service of a connection; its argument is whether
/// the client is local.
pub(crate) async fn serve_with<V: Service>(
    listeners: Vec<Listener>,
    tls: Option<Arc<Tls>>,
    bounds: Bounds,
    service: impl Fn(bool) -> V,
    stop: impl Future<Output = ()>,
) {
    let connections = Connections::new(bounds.connections);
    let stage = watch::Sender::new(Stage::Open);
    let serving = async {
        let listeners = listeners.into_iter().map(|listener| ((), listener)).collect();
        let mut listeners = Listeners::new(listeners);
        loop {
            let ((), accepted) = listeners.next(&connections).await;
            let slot = connections.enter(Phase::Fresh).await;
            let service = service(accepted.is_local());
            let serving = Serving { service, bounds, slot, stage: stage.subscribe() };
            tokio::spawn(serving.serve(accepted, tls.clone()));
        }
    };
    tokio::select! {
        () = serving => {}
        () = stop => {}
    }
    finish(&stage, &connections, bounds.shutdown_grace).await;
}

/// Waits for the stop signal. The server then reports that it is not ready, but continues to serve,
/// since balancers send requests until they notice.
async fn until_balancers_know(stop: impl Future<Output = ()>, backend: &Backend, delay: Duration) {
    stop.await;
    backend.readiness.stop();
    if !delay.is_zero() && backend.app().is_some() {
        tracing::info!("no longer ready; serving for {delay:?} until balancers notice");
        tokio::time::sleep(delay).await;
    }
    if let Some(app) = backend.app() {
        app.stop();
    }
}

/// Lets requests in progress finish, then aborts the rest.
async fn finish(stage: &watch::Sender<Stage>, connections: &Connections, grace: Duration) {
    stage.send_replace(Stage::Finishing);
    if tokio::time::timeout(grace, stage.closed()).await.is_ok() {
        return;
    }
    let busy = connections.counts().busy;
    tracing::warn!("{busy} requests were aborted: not finished {grace:?} after the stop signal");
    stage.send_replace(Stage::Over);
    drop(tokio::time::timeout(CUT_MAX, stage.closed()).await);
}

/// Handles the requests of one connection of an API.
#[derive(Clone)]
struct ApiService {
    backend: Arc<Backend>,
    connection: Connection,
}

impl Service for ApiService {
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send + 'static {
        self.backend.answer(self.connection, request)
    }

    fn write_error(&self) -> WriteError {
        self.connection.api.write_error()
    }

    fn unread_bounds(&self) -> unread_body::Bounds {
        let options = &self.backend.options;
        unread_body::Bounds::of(options.max_body_bytes, options.body_timeout)
    }
}

fn peer(accepted: &Accepted) -> Peer {
    match accepted {
        Accepted::Tcp(_, address) => Peer::Tcp(*address),
        Accepted::Unix(_) => Peer::Unix,
    }
}

/// Several listeners, each with its purpose.
pub(in crate::http) struct Listeners<T> {
    all: Vec<(T, Listener)>,
    /// Index of the listener to poll first.
    first: usize,
    trouble: LogThrottle,
}

impl<T: Copy> Listeners<T> {
    pub(in crate::http) fn new(all: Vec<(T, Listener)>) -> Self {
        Self { all, first: 0, trouble: LogThrottle::default() }
    }

    /// Returns the next connection and the purpose of its listener.
    pub(in crate::http) async fn next(&mut self, connections: &Connections) -> (T, Accepted) {
        loop {
            let error = match poll_fn(|cx| self.poll(cx)).await {
                Ok((of, accepted)) => {
                    if let Accepted::Tcp(stream, _) = &accepted
                        // Responses are written in full; Nagle's algorithm would only delay them.
                        && let Err(error) = stream.set_nodelay(true)
                    {
                        tracing::debug!(%error, "no TCP_NODELAY");
                    }
                    return (of, accepted);
                }
                Err(error) => error,
            };
            let fault = Fault::of(&error);
            admin::count_accept_error(fault.name());
            if fault == Fault::Gone {
                tracing::debug!(%error, "a connection ended before it was accepted");
                continue;
            }
            if let Some(count) = self.trouble.count() {
                tracing::warn!(%error, count, "accepting a connection failed");
            }
            connections.close_longest_idle();
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }

    /// Polls all listeners, starting after the one that returned the last connection, so that none
    /// starves.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(T, Accepted)>> {
        let (before, from) = self.all.split_at_checked(self.first).unwrap_or((&[], &self.all));
        for (nth, (of, listener)) in from.iter().chain(before).enumerate() {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                self.first = (self.first + nth + 1) % self.all.len().max(1);
                return Poll::Ready(accepted.map(|accepted| (*of, accepted)));
            }
        }
        Poll::Pending
    }
}

/// Kind of accept error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The connection failed; the next one may succeed.
    Gone,
    /// The system is out of descriptors or memory.
    Scarce,
    /// Any other error, probably of the listener.
    Other,
}

impl Fault {
    fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            // accept(2) also returns pending network errors of the new connection.
            Some(
                Errno::CONNABORTED
                | Errno::CONNRESET
                | Errno::INTR
                | Errno::PERM
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
                | Errno::OPNOTSUPP
                | Errno::TIMEDOUT,
            ) => Self::Gone,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Self::Scarce,
            Some(_) | None => Self::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Scarce => "scarce",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::Fault;

    #[test]
    fn a_client_that_gave_up_is_no_lack_of_descriptors() {
        let fault = |errno: Errno| Fault::of(&io::Error::from(errno));
        assert_eq!(fault(Errno::CONNABORTED), Fault::Gone);
        assert_eq!(fault(Errno::PERM), Fault::Gone);
        assert_eq!(fault(Errno::MFILE), Fault::Scarce);
        assert_eq!(fault(Errno::NFILE), Fault::Scarce);
        assert_eq!(fault(Errno::BADF), Fault::Other);
        assert_eq!(Fault::of(&io::Error::other("?")), Fault::Other);
    }
}
