//! Accepts connections, limits their number and times, and drains them at shutdown.
//!
//! Uses hyper directly, because axum's server has no timer and therefore no timeouts.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::http::admin::{self, AdminState};
use crate::http::backend::{self, Backend};
use crate::http::connection::{Api, Connection, WriteError};
use crate::http::edge::activity::Phase;
use crate::http::edge::bounds::{Bounds, Stage};
use crate::http::edge::connections::Connections;
use crate::http::edge::listener::{Accepted, Listener, Peer};
use crate::http::edge::listeners::Listeners;
use crate::http::edge::serving::{Service, Serving};
use crate::http::edge::tls::Tls;
use crate::http::edge::unread_body;
use crate::observe::metrics;

/// Maximum time for aborted connections to end.
const CUT_MAX: Duration = Duration::from_secs(1);

/// The listeners of the server.
#[derive(Debug)]
pub struct ServerListeners {
    /// Listeners with their APIs.
    pub listeners: Vec<(Api, Listener)>,
    /// TLS for TCP connections, if enabled.
    pub tls: Option<Arc<Tls>>,
    /// Listeners for metrics and health checks.
    pub admin: Vec<Listener>,
    /// Whether TCP connections to them use TLS as well.
    pub admin_tls: bool,
}

/// Serves until `stop` completes, then finishes requests in progress within the grace period. No
/// connection is open when this returns.
pub async fn serve(
    sockets: ServerListeners,
    backend: Arc<Backend>,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) {
    let ServerListeners { listeners, tls, admin, admin_tls } = sockets;
    let connections = Connections::new(bounds.connections);
    let of_admin = Arc::new(AdminState::new(Arc::clone(&backend), Arc::clone(&connections)));
    let admin_stage = watch::Sender::new(Stage::Open);
    // These tasks run until the end, so that `/readyz` reports the shutdown.
    let mut admin_tasks = JoinSet::new();
    if !admin.is_empty() {
        admin_tasks.spawn(admin::accept_all(
            admin,
            tls.clone().filter(|_| admin_tls),
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
    fn respond(&self, request: Request) -> impl Future<Output = Response> + Send + 'static {
        self.backend.respond(self.connection, request)
    }

    fn write_error(&self) -> WriteError {
        backend::write_error(self.connection.api)
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
