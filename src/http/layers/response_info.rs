//! Facts about a request that layers and APIs add to its response.

use std::sync::Arc;

use axum::http::Method;
use opentelemetry::trace::TraceId;

use crate::auth::policy::Caller;

/// Facts that an API establishes about a request: an extension of the response.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct RequestInfo {
    pub(in crate::http) version: Option<String>,
    pub(in crate::http) user: Option<String>,
    pub(in crate::http) project: Option<String>,
    /// The path of the matched route, with `{name}` for a variable segment; `None` if no route
    /// matches.
    pub(in crate::http) route: Option<&'static str>,
    /// The cause of a server error.
    pub(in crate::http) cause: Option<String>,
}

/// The trace of a request: an extension of the response.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct ResponseTrace(pub(in crate::http) TraceId);

/// Returns a method's name if it is a common one, so that the number of names is bounded.
pub(in crate::http) fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}

/// The caller of a request: an extension of the response.
#[derive(Clone, Debug)]
pub(in crate::http) struct ResponseCaller(pub(in crate::http) Arc<Caller>);
