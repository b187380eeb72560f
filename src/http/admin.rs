//! What the server says of itself to those who look after it: whether it lives, whether it can
//! answer, and how much it does. It has listeners and connections of its own, so that it is told
//! however many clients the APIs have, and neither tokens nor TLS.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::sync::watch;

use super::activity::Phase;
use super::backend::Backend;
use super::connections::Connections;
use super::health::{self, HEALTHZ, READYZ, text};
use super::listener::Listener;
use super::server::{Bounds, Listeners, Stage};
use super::serving::{Service, Serving};
use super::{WriteError, unread_body};
use crate::model::bug;

/// Connections open at once.
const CONNECTIONS_MAX: usize = 16;
/// How much of a body is read, which nobody needs, and for how long.
const BODY_MAX: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 64 * 1024;

const OPEN: &str = "berth_connections_open";
const IDLE: &str = "berth_connections_idle";
const CLOSED_FOR_ROOM: &str = "berth_connections_closed_for_room_total";
const IN_FLIGHT: &str = "berth_requests_in_flight";
const PANICS: &str = "berth_panics_total";
const INCONSISTENCIES: &str = "berth_inconsistencies_total";
const ACCEPT_ERRORS: &str = "berth_accept_errors_total";

/// Counted where lines are dropped.
const LOG_LINES_DROPPED: &str = "berth_log_lines_dropped_total";

/// Where numbers are collected: one slot for the whole process, as the crate `metrics` has it. It
/// is none where somebody else collects already.
static COLLECTED: LazyLock<Option<PrometheusHandle>> = LazyLock::new(|| {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    if let Err(error) = metrics::set_global_recorder(recorder) {
        tracing::error!(%error, "metrics are collected elsewhere");
        return None;
    }
    describe_gauge!(OPEN, "Connections of the APIs that are open.");
    describe_gauge!(IDLE, "Connections of the APIs without a request or the beginning of one.");
    describe_counter!(CLOSED_FOR_ROOM, "Idle connections that were closed for new ones.");
    describe_gauge!(IN_FLIGHT, "Requests of the APIs that are not answered yet.");
    describe_counter!(PANICS, "Requests that ended in a panic.");
    describe_counter!(INCONSISTENCIES, "Times that rows or the program contradicted themselves.");
    describe_counter!(ACCEPT_ERRORS, "Connections that could not be accepted, by reason.");
    describe_counter!(
        LOG_LINES_DROPPED,
        "Log lines that were dropped because nobody read the log or it could not be written."
    );
    counter!(LOG_LINES_DROPPED).increment(0);
    Some(handle)
});

/// Begins to collect numbers; what is counted before is lost.
pub fn collect() {
    LazyLock::force(&COLLECTED);
}

/// Counts that a connection could not be accepted.
pub(super) fn count_accept_error(reason: &'static str) {
    counter!(ACCEPT_ERRORS, "reason" => reason).increment(1);
}

/// What the server knows of itself.
#[derive(Debug)]
pub(super) struct AdminState {
    backend: Arc<Backend>,
    connections: Arc<Connections>,
}

impl AdminState {
    pub(super) fn new(backend: Arc<Backend>, connections: Arc<Connections>) -> Self {
        collect();
        Self { backend, connections }
    }

    async fn answer(&self, method: Method, path: &str) -> Response {
        if let Err(refusal) = health::check_method(&method) {
            return *refusal;
        }
        match path {
            HEALTHZ => text(StatusCode::OK, "ok\n"),
            READYZ => {
                let store = self.backend.app().map(|app| &app.store);
                health::written(self.backend.readiness.check(store).await)
            }
            "/metrics" => match self.metrics() {
                Some(metrics) => exposition(metrics),
                None => text(StatusCode::NOT_FOUND, "metrics are collected elsewhere\n"),
            },
            _ => text(StatusCode::NOT_FOUND, "there are /healthz, /readyz and /metrics\n"),
        }
    }

    /// The numbers, in the text format of Prometheus.
    fn metrics(&self) -> Option<String> {
        let collected = COLLECTED.as_ref()?;
        let counts = self.connections.counts();
        gauge!(OPEN).set(number(counts.open));
        gauge!(IDLE).set(number(counts.idle));
        gauge!(IN_FLIGHT).set(number(counts.busy));
        counter!(CLOSED_FOR_ROOM).absolute(self.connections.closed_for_room());
        counter!(PANICS).absolute(self.backend.app().map_or(0, |app| app.panics()));
        counter!(INCONSISTENCIES).absolute(bug::found());
        for reason in ["gone", "scarce", "other"] {
            counter!(ACCEPT_ERRORS, "reason" => reason).increment(0);
        }
        collected.run_upkeep();
        Some(collected.render())
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are less than 2 to the 52nd connections")]
fn number(count: usize) -> f64 {
    count as f64
}

/// An answer in the text format of Prometheus.
fn exposition(metrics: impl Into<Body>) -> Response {
    let mut response = text(StatusCode::OK, metrics);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Answers the requests of one connection.
#[derive(Clone)]
struct Answering(Arc<AdminState>);

impl Service for Answering {
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send + 'static {
        let admin_state = Arc::clone(&self.0);
        let (parts, _) = request.into_parts();
        async move { admin_state.answer(parts.method, parts.uri.path()).await }
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
        let service = Answering(Arc::clone(&admin_state));
        let serving = Serving { service, bounds, slot, stage: stage.subscribe() };
        tokio::spawn(serving.serve(accepted, None));
    }
}
