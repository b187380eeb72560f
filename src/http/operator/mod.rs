//! The operator API, beyond the published APIs: below `/-/v1`, on the address of the Placement API,
//! with the same tokens and policy language. Errors have the form and the codes of the Placement
//! API.

mod candidates;
mod claim;
mod consumers;
mod costly;
mod events;
mod explain;
mod figures;
mod fit;
mod fragmentation;
mod moves;
mod providers;
mod refused;
mod requests;
pub mod views;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

pub(super) use self::claim::claim_faults;
pub(super) use self::explain::explained;
pub use self::figures::count_flavors;
use super::api::reply::Reply;
use super::api::routes::{OneVersion, Route, Row, get, methods, post, route};
use super::api::{self, Context, Dialect, context};
use super::app::{App, Options};
use super::placement::microversion::{HEADER, LATEST, Microversion};
use super::placement::{self, Code};
use crate::auth::policy::operator as rule;
use crate::http::api::streamed::{self, ClientGone, CutShort, Making};
use crate::http::layers::external_url::ExternalUrl;
use crate::http::layers::identity::Caller;
use crate::http::layers::middleware::HttpService;
use crate::model::Refusal;

/// The path of the API.
const PREFIX: &str = "/-/";

/// An error of the operator API.
type Problem = api::problem::Problem<Operator>;

/// Creates the service of the API.
pub(super) fn service(app: &Arc<App>) -> HttpService {
    let root: Route<Operator> = route("/-", [get::<Operator, _, _>(.., None, versions)]);
    let table: Vec<Route<Operator>> = vec![
        route(
            "/-/v1/allocation_candidates",
            [get::<Operator, _, _>(.., rule::CANDIDATES, candidates::list)],
        ),
        route(
            "/-/v1/explain",
            [
                get::<Operator, _, _>(.., rule::EXPLAIN, explain::show),
                post::<Operator, _, _>(.., rule::EXPLAIN, claim::explain),
            ],
        ),
        route("/-/v1/events", [get::<Operator, _, _>(.., rule::EVENTS, events::follow)]),
        route("/-/v1/refused", [get::<Operator, _, _>(.., rule::REFUSED, refused::list)]),
        route(
            "/-/v1/refused/{request_id}",
            [get::<Operator, _, _>(.., rule::REFUSED, refused::show)],
        ),
        route("/-/v1/fit", [get::<Operator, _, _>(.., rule::FIT, fit::show)]),
        route(
            "/-/v1/fragmentation",
            [get::<Operator, _, _>(.., rule::FRAGMENTATION, fragmentation::show)],
        ),
        route("/-/v1/moves", [get::<Operator, _, _>(.., rule::MOVES, moves::show)]),
        route("/-/v1/providers", [get::<Operator, _, _>(.., rule::PROVIDERS, providers::list)]),
        route("/-/v1/consumers", [get::<Operator, _, _>(.., rule::CONSUMERS, consumers::list)]),
        route(
            "/-/v1/allocations/get",
            [post::<Operator, _, _>(.., rule::CONSUMERS, consumers::allocations)],
        ),
    ];
    api::service(app, root, table)
}

/// Returns whether a request is for this API. `prefix` is the additional path prefix of the
/// Placement API.
pub(super) fn handles(request: &Request, prefix: &str) -> bool {
    let is_below = |path: &str| path.starts_with(PREFIX) || path == "/-";
    api::path::with_and_without(prefix, request).any(is_below)
}

/// The dialect of the operator API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operator;

impl Dialect for Operator {
    type Versions = OneVersion;
    type Facts = ();
    type Code = Code;

    const NAME: &'static str = "operator";
    const IGNORES_LAST_SLASH: bool = true;

    fn prefix(options: &Options) -> &str {
        &options.path_prefix
    }

    fn facts(_: &HeaderMap) {}

    fn understand(_: &Context<Self>, _: &Request) -> Result<(), Problem> {
        Ok(())
    }

    fn choose<'r>(
        rows: &'r [Row<Self>],
        app: &App,
        request: &Request,
    ) -> Result<&'r Row<Self>, Problem> {
        let row = rows.iter().find(|row| row.method == *request.method());
        let row = row.ok_or_else(|| {
            let detail = format!("The method {} is not allowed here.", request.method());
            Problem::method_not_allowed(detail, methods(rows).join(", "))
        })?;
        for rule in &row.rules {
            let checked = app.policy.check(caller(request.extensions())?, *rule, None);
            checked.map_err(|denied| Problem::new(StatusCode::FORBIDDEN, denied.to_string()))?;
        }
        Ok(row)
    }

    fn status(_: &Refusal) -> StatusCode {
        StatusCode::CONFLICT
    }

    fn render(problem: Problem, context: &Context<Self>) -> Response {
        let Problem { status, code, detail, allow, www_authenticate, .. } = problem;
        let detail = if detail.is_empty() { api::status::explanation(status) } else { &detail };
        let body = placement::error_body(status, detail, Some(code), &context.request_id);
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(placement::accept::JSON));
        let retry = status == StatusCode::SERVICE_UNAVAILABLE;
        let retry = retry.then(|| api::problem::RETRY_AFTER.to_owned());
        for (name, value) in [
            (header::ALLOW, allow),
            (header::WWW_AUTHENTICATE, www_authenticate),
            (header::RETRY_AFTER, retry),
        ] {
            if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
                headers.insert(name, value);
            }
        }
        response
    }
}

fn caller(extensions: &Extensions) -> Result<&Arc<Caller>, Problem> {
    let missing = || Problem::internal("no layer has determined the caller");
    context::<Operator>(extensions)?.caller().ok_or_else(missing)
}

/// Returns the microversion of a query: that of the header, or the latest.
fn microversion(headers: &HeaderMap) -> Result<Microversion, Problem> {
    if headers.contains_key(HEADER) {
        Microversion::from_headers(headers).map_err(|why| placement::unacceptable(why).into())
    } else {
        Ok(LATEST)
    }
}

struct RequestCaller(Arc<Caller>);

impl<S: Sync> FromRequestParts<S> for RequestCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        caller(&parts.extensions).cloned().map(Self)
    }
}

/// `GET /-`: the versions.
async fn versions(external_url: ExternalUrl) -> Result<Reply, Problem> {
    let links = json!([{"rel": "self", "href": external_url.location("/-/v1")}]);
    Ok(Reply::json(&json!({"versions": [{"id": "v1", "status": "CURRENT", "links": links}]})))
}

/// Converts a problem of the Placement API.
impl From<placement::Problem> for Problem {
    fn from(problem: placement::Problem) -> Self {
        let placement::Problem { status, code, detail, allow, www_authenticate, cause } = problem;
        Self { status, code, detail, allow, www_authenticate, cause }
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
async fn made_within<F>(
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
