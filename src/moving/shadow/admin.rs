//! The operators' listener: metrics, the summary, and the switch of the mirror.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::metrics::gauge;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;

use super::comparison::Report;
use super::mirror::Mirror;
use super::summary::{Setting, Summary};
use crate::http::{Service, UnreadBounds, WriteError};
use crate::observe::{metrics, printable};

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// The text format of Prometheus.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The supported requests.
const USAGE: &str = "supported requests: GET /healthz, /metrics, /summary and /summary?format=words, \
                     and POST /mirror/on and /mirror/off\n";
/// Bounds for reading a request's body, which is ignored.
const BODY_MAX: Duration = Duration::from_secs(5);
const BODY_BYTES_MAX: usize = 64 * 1024;

/// State of the proxy that operators can see.
pub(super) struct AdminState {
    pub(super) mirror: Arc<Mirror>,
    pub(super) report: Arc<Report>,
    pub(super) upstream: String,
    pub(super) berth: String,
    pub(super) began: Instant,
}

impl AdminState {
    /// A summary of all requests so far.
    pub(super) fn summary(&self) -> Summary {
        let mirror = &self.mirror;
        let setting = Setting {
            upstream: self.upstream.clone(),
            berth: self.berth.clone(),
            runs_for: self.began.elapsed(),
            is_on: mirror.is_on(),
            mirrors_writes: mirror.bounds.writes,
            pending_reads: mirror.pending_reads.count(),
            pending_writes: mirror.pending_writes.count(),
            not_written: self
                .report
                .records
                .as_ref()
                .map_or(0, super::records::Records::not_written),
        };
        Summary { setting, counts: mirror.tally.snapshot() }
    }

    fn metrics(&self) -> Option<String> {
        let mirror = &self.mirror;
        gauge!("berth_shadow_mirror_on").set(u8::from(mirror.is_on()));
        let pending = [("read", &mirror.pending_reads), ("write", &mirror.pending_writes)];
        for (kind, pending) in pending {
            let count = u32::try_from(pending.count()).unwrap_or(u32::MAX);
            gauge!("berth_shadow_pending", "kind" => kind).set(count);
        }
        metrics::render()
    }

    fn respond(&self, method: &Method, path: &str, query: Option<&str>) -> Response {
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        match path {
            "/healthz" if is_read => text(StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/metrics" if is_read => match self.metrics() {
                Some(metrics) => text(StatusCode::OK, EXPOSITION, metrics),
                None => text(StatusCode::NOT_FOUND, TEXT, "metrics are not collected\n".to_owned()),
            },
            "/summary" if is_read => match query {
                None | Some("" | "format=json") => {
                    let summary = format!("{:#}\n", self.summary().json());
                    text(StatusCode::OK, JSON, printable::escaped_json(&summary).into_owned())
                }
                Some("format=words") => {
                    let words = self.summary().words();
                    text(StatusCode::OK, TEXT, printable::output(&words).into_owned())
                }
                Some(_) => text(StatusCode::BAD_REQUEST, TEXT, USAGE.to_owned()),
            },
            "/mirror/on" | "/mirror/off" if *method == Method::POST => {
                self.mirror.turn(path == "/mirror/on");
                let state = if self.mirror.is_on() { "on" } else { "off" };
                text(StatusCode::OK, TEXT, format!("the mirror is {state}\n"))
            }
            "/healthz" | "/metrics" | "/summary" => not_allowed("GET, HEAD"),
            "/mirror/on" | "/mirror/off" => not_allowed("POST"),
            _ => text(StatusCode::NOT_FOUND, TEXT, USAGE.to_owned()),
        }
    }
}

fn not_allowed(allowed: &'static str) -> Response {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, TEXT, USAGE.to_owned());
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

fn text(status: StatusCode, kind: &'static str, words: String) -> Response {
    let mut response = Response::new(Body::from(words));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Responds to the requests of one connection.
#[derive(Clone)]
pub(super) struct Admin(pub(super) Arc<AdminState>);

impl Service for Admin {
    fn respond(&self, request: Request) -> impl Future<Output = Response> + Send + 'static {
        let state = Arc::clone(&self.0);
        let (parts, _) = request.into_parts();
        async move { state.respond(&parts.method, parts.uri.path(), parts.uri.query()) }
    }

    fn write_error(&self) -> WriteError {
        |_, detail, _| (TEXT, format!("{detail}\n"))
    }

    fn unread_bounds(&self) -> UnreadBounds {
        UnreadBounds::of(BODY_BYTES_MAX, BODY_MAX)
    }
}
