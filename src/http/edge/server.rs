//! The listeners: accept connections, bound them in number and time, and let them finish when told
//! to stop.
//!
//! Built on hyper by hand because a server without a timer has no working time-outs.

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

use crate::http::Api;
use crate::http::Backend;
use crate::http::Connection;
use crate::http::WriteError;
use crate::http::admin::{self, AdminState};
use crate::http::edge::activity::Phase;
use crate::http::edge::connections::Connections;
use crate::http::edge::listener::{Accepted, Listener, Peer};
use crate::http::edge::serving::{Service, Serving};
use crate::http::edge::tls::Tls;
use crate::http::edge::unread_body;
use crate::observe::log_throttle::LogThrottle;
use crate::observe::metrics;

/// How long the listeners rest when the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long connections have to end that are cut off.
const CUT_MAX: Duration = Duration::from_secs(1);

/// The bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections open at once. When one more comes, the one idle longest is closed; while none
    /// is idle, further ones wait to be accepted.
    pub connections: usize,
    /// How long a client has to agree on TLS, then for the head of its first request, and for
    /// each further head from its first byte.
    pub header_timeout: Duration,
    /// How long a connection may be idle after an answer.
    pub idle_timeout: Duration,
    /// How long a client has to take in each part of an answer.
    pub write_timeout: Duration,
    /// How long the server serves on once told to stop, while it says that it is not ready.
    pub shutdown_delay: Duration,
    /// How long requests in flight have to finish after that.
    pub shutdown_grace: Duration,
}

/// Where requests come from.
#[derive(Debug)]
pub struct Front {
    /// What is listened on, and for which API.
    pub listeners: Vec<(Api, Listener)>,
    /// TLS of the connections that come by TCP, if they have it.
    pub tls: Option<Arc<Tls>>,
    /// Where the state of the server is told, without TLS, over connections of its own.
    pub admin: Vec<Listener>,
}

/// What connections are told of the end of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Stage {
    /// It serves.
    Open,
    /// It takes no new requests, and finishes those in flight.
    Finishing,
    /// What is still in flight is cut off.
    Over,
}

/// Serves until `stop` is ready, then finishes what is in flight within the grace period. When this
/// returns, no connection is open.
pub async fn serve(
    front: Front,
    backend: Arc<Backend>,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) {
    let Front { listeners, tls, admin } = front;
    let connections = Connections::new(bounds.connections);
    let of_admin = Arc::new(AdminState::new(Arc::clone(&backend), Arc::clone(&connections)));
    let admin_stage = watch::Sender::new(Stage::Open);
    // Told to the end: it says that the server is stopping. Ends with this function.
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
            let service = Answering { backend: Arc::clone(&backend), connection };
            let serving = Serving { service, bounds, slot, stage: stage.subscribe() };
            tokio::spawn(serving.serve(accepted, tls.clone()));
        }
    };
    // Whichever ends first, the listeners are closed with it: files of Unix sockets are removed, so
    // that the next server finds their places free.
    tokio::select! {
        () = serving => {}
        () = until_balancers_know(stop, &backend, bounds.shutdown_delay) => {}
    }
    finish(&stage, &connections, bounds.shutdown_grace).await;
    admin_stage.send_replace(Stage::Over);
}

/// Serves something other than the APIs until `stop` is ready, then finishes what is in flight within
/// the grace period. `service` makes what answers the requests of a connection, and is told whether the
/// client is on this machine.
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

/// Waits for the word to stop. From then on the server is not ready, but serves for a while: balancers send
/// requests until they have noticed.
async fn until_balancers_know(stop: impl Future<Output = ()>, backend: &Backend, delay: Duration) {
    stop.await;
    backend.readiness.stop();
    if !delay.is_zero() && backend.app().is_some() {
        tracing::info!("not ready any more; serving for {delay:?} until balancers have noticed");
        tokio::time::sleep(delay).await;
    }
    if let Some(app) = backend.app() {
        app.stop();
    }
}

/// Lets requests in flight finish, then cuts off what is left.
async fn finish(stage: &watch::Sender<Stage>, connections: &Connections, grace: Duration) {
    stage.send_replace(Stage::Finishing);
    if tokio::time::timeout(grace, stage.closed()).await.is_ok() {
        return;
    }
    let busy = connections.counts().busy;
    tracing::warn!("{busy} requests were cut off: not finished {grace:?} after the word to stop");
    stage.send_replace(Stage::Over);
    drop(tokio::time::timeout(CUT_MAX, stage.closed()).await);
}

/// Answers the requests of one connection of an API.
#[derive(Clone)]
struct Answering {
    backend: Arc<Backend>,
    connection: Connection,
}

impl Service for Answering {
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

/// Several listeners, each of which is for something.
pub(in crate::http) struct Listeners<T> {
    all: Vec<(T, Listener)>,
    /// The listener that is asked first.
    first: usize,
    trouble: LogThrottle,
}

impl<T: Copy> Listeners<T> {
    pub(in crate::http) fn new(all: Vec<(T, Listener)>) -> Self {
        Self { all, first: 0, trouble: LogThrottle::default() }
    }

    /// The next connection, and what its listener is for.
    pub(in crate::http) async fn next(&mut self, connections: &Connections) -> (T, Accepted) {
        loop {
            let error = match poll_fn(|cx| self.poll(cx)).await {
                Ok((of, accepted)) => {
                    if let Accepted::Tcp(stream, _) = &accepted
                        // Answers are written whole; waiting for more to send only delays them.
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

    /// Asks all listeners, and first the one after that which had the last connection: none
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

/// Why a connection was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The client or the network gave it up; the next may be well.
    Gone,
    /// The system lacks descriptors or memory.
    Scarce,
    /// The listener is broken, as far as we know.
    Other,
}

impl Fault {
    fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            // accept(2) passes on what has become of the connection itself.
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
