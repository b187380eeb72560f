//! Writes one log line for each request when its response is ready.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use ::metrics::{counter, histogram};
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use tracing::field;

use crate::http::connection::{Api, connection};
use crate::http::layers::around::Then;
use crate::http::layers::proxy::{ForwardedFrom, Remote, Trusted};
use crate::http::layers::request_id::{GlobalRequestId, request_id};
use crate::http::layers::response_info::{RequestInfo, ResponseTrace, method_name};
use crate::observe::metrics;
use crate::observe::spans::milliseconds;

/// Path of the health check that responds while the process is running.
pub(in crate::http) const HEALTHZ: &str = "/healthz";
/// Path of the health check that responds 200 if requests can be served.
pub(in crate::http) const READYZ: &str = "/readyz";

/// Determines the client's address from trusted proxies, and writes the line when the response is
/// ready.
///
/// The line needs the caller and the findings of the APIs, so this layer is outside of them.
pub(in crate::http) fn log(trusted: &Trusted, request: &mut Request) -> Then {
    let started = Instant::now();
    let forwarded = ForwardedFrom::of(connection(request.extensions()), request.headers(), trusted);
    let line = Line::of(&forwarded, request);
    request.extensions_mut().insert(forwarded.remote);
    if forwarded.is_remarkable() {
        request.extensions_mut().insert(forwarded);
    }
    Box::new(move |response| {
        line.write(&response, started);
        response
    })
}

/// The facts about a request that are known on arrival.
struct Line {
    api: Api,
    remote: Remote,
    request_id: String,
    global_request_id: Option<GlobalRequestId>,
    method: Method,
    target: String,
}

impl Line {
    fn of(forwarded: &ForwardedFrom, request: &Request) -> Self {
        let target = match request.uri().path_and_query() {
            Some(target) => target.to_string(),
            None => request.uri().to_string(),
        };
        Self {
            api: connection(request.extensions()).api,
            remote: forwarded.remote,
            request_id: request_id(request.extensions()).to_owned(),
            global_request_id: request.extensions().get().cloned(),
            method: request.method().clone(),
            target,
        }
    }

    fn write(&self, response: &Response, started: Instant) {
        let info = response.extensions().get::<RequestInfo>().cloned();
        if let Some(info) = info.as_ref().filter(|_| metrics::are_collected()) {
            self.record(info, response.status(), started.elapsed());
        }
        let info = info.unwrap_or_default();
        let Self { api: _, remote, request_id, global_request_id, method, target } = self;
        let status = response.status().as_u16();
        let trace_id = response.extensions().get::<ResponseTrace>().map(|it| field::display(it.0));
        // The length of a streamed response is not known yet.
        let bytes = response.body().size_hint().exact();
        let took_ms = milliseconds(started.elapsed());
        let RequestInfo { version, user, project, route: _, cause } = info;
        let version = version.as_deref();
        let (user, project) = (user.as_deref(), project.as_deref());
        let global_request_id = global_request_id.as_ref().map(|id| id.0.as_str());
        if let Some(cause) = cause {
            tracing::error!(
                request_id,
                trace_id,
                global_request_id,
                status,
                "{method} {target}: {cause}"
            );
        }
        if self.is_health_check() && response.status().is_success() {
            tracing::debug!(request_id, %remote, status, took_ms, "{method} {target} {status}");
            return;
        }
        tracing::info!(
            request_id,
            trace_id,
            global_request_id,
            %remote,
            %method,
            path = target,
            microversion = version,
            status,
            bytes,
            took_ms,
            user,
            project,
            "{method} {target} {status}"
        );
    }

    /// Counts the request. Each label has a bounded number of values, whatever clients send.
    fn record(&self, info: &RequestInfo, status: StatusCode, took: Duration) {
        let method = method_name(&self.method);
        let route = info.route.unwrap_or("unmatched");
        let api = match self.api {
            Api::Placement => "placement",
            Api::Planner => "planner",
        };
        let status = status.as_str().to_owned();
        let version = info.version.clone().map_or(Cow::from("none"), Cow::from);
        counter!(
            "berth_requests_total",
            "api" => api, "method" => method, "route" => route, "status" => status.clone(),
            "microversion" => version
        )
        .increment(1);
        histogram!(
            "http_server_request_duration_seconds",
            "api" => api, "http_request_method" => method, "http_route" => route,
            "http_response_status_code" => status
        )
        .record(took);
    }

    /// Returns whether this is a health check, which balancers send every second or two.
    fn is_health_check(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
            && (self.target == "/" || [HEALTHZ, READYZ].iter().any(|it| self.target.ends_with(it)))
    }
}
