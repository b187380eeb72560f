//! The dialect of the operator API, and what its handlers share.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::http::api;
use crate::http::api::dialect::{Context, Dialect, Row, caller};
use crate::http::api::json::JSON;
use crate::http::api::routes::{OneVersion, by_method};
use crate::http::api::streamed::{self, ClientGone, CutShort, Making};
use crate::http::app::{App, Options};
use crate::http::layers::identity::Caller;
use crate::http::placement::microversion::{HEADER, LATEST, Microversion};
use crate::http::placement::{self, Code};
use crate::model::Refusal;

/// An error of the operator API.
pub(in crate::http) type Problem = api::problem::Problem<Operator>;

/// The dialect of the operator API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Operator;

impl Dialect for Operator {
    type Versions = OneVersion;
    type Facts = ();
    type Code = Code;

    const NAME: &'static str = "operator";
    const IGNORES_LAST_SLASH: bool = true;

    fn prefix(options: &Options) -> &str {
        &options.path_prefix
    }

    fn facts(_: &Request) {}

    fn choose<'r>(
        rows: &'r [Row<Self>],
        app: &App,
        request: &Request,
    ) -> Result<&'r Row<Self>, Problem> {
        by_method(rows, app, request)
    }

    fn status(_: &Refusal) -> StatusCode {
        StatusCode::CONFLICT
    }

    fn render(problem: Problem, context: &Context<Self>) -> Response {
        let Problem { status, code, ref detail, ref www_authenticate, .. } = problem;
        let detail = if detail.is_empty() { api::status::explanation(status) } else { detail };
        let body = placement::error_body(status, detail, Some(code), &context.request_id);
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        if let Some(Ok(value)) = www_authenticate.as_deref().map(HeaderValue::from_str) {
            headers.insert(header::WWW_AUTHENTICATE, value);
        }
        problem.add_headers(headers);
        response
    }
}

/// Returns the microversion of a query: that of the header, or the latest.
pub(super) fn microversion(headers: &HeaderMap) -> Result<Microversion, Problem> {
    if headers.contains_key(HEADER) {
        Microversion::from_headers(headers).map_err(|why| placement::unacceptable(why).into())
    } else {
        Ok(LATEST)
    }
}

pub(in crate::http) struct RequestCaller(pub(in crate::http) Arc<Caller>);

impl<S: Sync> FromRequestParts<S> for RequestCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        caller(&parts.extensions).cloned().map(Self)
    }
}

/// Converts a problem of the Placement API.
impl From<placement::Problem> for Problem {
    fn from(problem: placement::Problem) -> Self {
        problem.into_dialect(|code| code)
    }
}

impl From<ClientGone> for Problem {
    fn from(gone: ClientGone) -> Self {
        Self::unavailable(gone.to_string())
    }
}

/// Returns a body that `work` produces within `most`. Waits for the first part.
///
/// # Errors
/// The work failed before its first part.
pub(super) async fn made_within<F>(
    most: Duration,
    work: impl FnOnce(streamed::Parts) -> F,
) -> Result<Body, Problem>
where
    F: Future<Output = Result<(), Problem>> + Send + 'static,
{
    let mut making = Making::begin(most, work);
    match making.next().await {
        None => Ok(Body::empty()),
        Some(Ok(first)) => Ok(making.body(first)),
        Some(Err(CutShort::Failed(problem))) => Err(problem),
        Some(Err(CutShort::SlowClient(most))) => Err(Problem::unavailable(format!(
            "no part of the response was produced within {most:?}"
        ))),
        Some(Err(CutShort::Panic(panic))) => Err(Problem::internal(panic.to_string())),
    }
}
