//! Health checks and metrics for operators. They have their own listeners and connections, without
//! tokens or TLS, so they stay reachable however many clients the APIs have.

mod cloud_figures;
pub(in crate::http) mod gauges;
pub(crate) mod health;
pub mod token;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::metrics::{counter, gauge};
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use tokio::sync::watch;

use crate::http::backend::Backend;
use crate::http::connection::WriteError;
use crate::http::edge::activity::Phase;
use crate::http::edge::bounds::{Bounds, Stage};
use crate::http::edge::connections::Connections;
use crate::http::edge::listener::Listener;
use crate::http::edge::listeners::Listeners;
use crate::http::edge::serving::{Service, Serving};
use crate::http::edge::tls::Tls;
use crate::http::edge::unread_body;
use crate::http::layers::access_log::{HEALTHZ, READYZ};
use crate::model::bug;
use crate::observe::metrics;
use cloud_figures::Cloud;
use gauges::{number, record};
use health::text;

/// Metrics of this process.
const METRICS: &str = "/metrics";
/// Metrics of the cloud, which are the same on all replicas.
const CLOUD: &str = "/metrics/cloud";
/// Response for other paths.
const PATHS: &str = "there are /healthz, /readyz, /metrics and /metrics/cloud\n";

/// Maximum number of connections.
const CONNECTIONS_MAX: usize = 16;
/// Limits for discarding a request body.
const BODY_MAX: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 64 * 1024;

/// State of the admin endpoints.
#[derive(Debug)]
pub(super) struct AdminState {
    backend: Arc<Backend>,
    connections: Arc<Connections>,
}

impl AdminState {
    pub(super) fn new(backend: Arc<Backend>, connections: Arc<Connections>) -> Self {
        Self { backend, connections }
    }

    async fn respond(&self, parts: Parts) -> Response {
        let Parts { method, uri, headers, .. } = parts;
        if let Err(refusal) = health::check_method(&method) {
            return *refusal;
        }
        let token = self.backend.options.admin_token.as_ref();
        if [METRICS, CLOUD].contains(&uri.path()) && token.is_some_and(|it| !it.is_in(&headers)) {
            return unauthorized();
        }
        match uri.path() {
            HEALTHZ => text(StatusCode::OK, "ok\n"),
            READYZ => {
                let store = self.backend.app().map(|app| &app.store);
                health::written(self.backend.readiness.check(store).await)
            }
            METRICS => match self.metrics().await {
                Some(metrics) => exposition(metrics),
                None => text(StatusCode::NOT_FOUND, "metrics are not collected\n"),
            },
            CLOUD => match self.cloud().await {
                Ok(cloud) => exposition(cloud_figures::body(cloud)),
                Err(refusal) => *refusal,
            },
            _ => text(StatusCode::NOT_FOUND, PATHS),
        }
    }

    /// Reads the current state of the cloud.
    async fn cloud(&self) -> Result<Cloud, Box<Response>> {
        let cloud = match self.backend.app() {
            Some(app) => Cloud::read(app).await.map_err(|error| error.to_string()),
            None => Err("the server waits for its database".to_owned()),
        };
        cloud.map_err(|why| {
            tracing::warn!(why, "cannot read the metrics of the cloud");
            Box::new(text(StatusCode::SERVICE_UNAVAILABLE, "the database is not available\n"))
        })
    }

    /// Returns the metrics, in the text format of Prometheus.
    async fn metrics(&self) -> Option<String> {
        if !metrics::are_collected() {
            return None;
        }
        let counts = self.connections.counts();
        gauge!("berth_connections_open").set(number(counts.open));
        gauge!("berth_connections_idle").set(number(counts.idle));
        gauge!("berth_requests_in_flight").set(number(counts.busy));
        let most = self.backend.options.max_requests;
        gauge!("berth_requests_in_flight_max").set(number(most));
        let closed = self.connections.closed_for_room();
        counter!("berth_connections_closed_for_room_total").absolute(closed);
        counter!("berth_inconsistencies_total").absolute(bug::found());
        if let Some(log) = &self.backend.options.audit {
            gauge!("berth_audit_entries_waiting").set(number(log.waiting()));
        }
        let app = self.backend.app();
        let is_ready = self.backend.readiness.check(app.map(|app| &app.store)).await.is_ok();
        gauge!("berth_ready").set(u8::from(is_ready));
        if let Some(app) = app {
            record(app);
        }
        metrics::render()
    }
}

/// Returns the response to a request for metrics without the token.
fn unauthorized() -> Response {
    let mut response =
        text(StatusCode::UNAUTHORIZED, "the token of --admin-token-file is needed\n");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Returns a response in the text format of Prometheus.
fn exposition(metrics: impl Into<Body>) -> Response {
    let mut response = text(StatusCode::OK, metrics);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Handles the requests of one connection.
#[derive(Clone)]
struct AdminService(Arc<AdminState>);

impl Service for AdminService {
    fn respond(&self, request: Request) -> impl Future<Output = Response> + Send + 'static {
        let Self(admin_state) = self.clone();
        let (parts, _) = request.into_parts();
        async move { admin_state.respond(parts).await }
    }

    fn write_error(&self) -> WriteError {
        |_, detail, _| ("text/plain; charset=utf-8", format!("{detail}\n"))
    }

    fn unread_bounds(&self) -> unread_body::Bounds {
        unread_body::Bounds::of(BODY_BYTES_MAX, BODY_MAX)
    }
}

/// Accepts connections, and serves them, until this is dropped.
pub(super) async fn accept_all(
    listeners: Vec<Listener>,
    tls: Option<Arc<Tls>>,
    admin_state: Arc<AdminState>,
    bounds: Bounds,
    stage: watch::Sender<Stage>,
) -> Infallible {
    let connections = Connections::new(CONNECTIONS_MAX);
    let listeners = listeners.into_iter().map(|listener| ((), listener)).collect();
    let mut listeners = Listeners::new(listeners);
    loop {
        let ((), accepted) = listeners.next(&connections).await;
        let slot = connections.enter(Phase::Fresh).await;
        let service = AdminService(Arc::clone(&admin_state));
        let serving = Serving { service, bounds, slot, stage: stage.subscribe() };
        tokio::spawn(serving.serve(accepted, tls.clone()));
    }
}
