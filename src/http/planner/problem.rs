//! Errors of the planner's API: JSON, but plain text for unauthenticated callers.
//!
//! The names and texts are those of the original API, because clients read them.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::dialect::Planner;
use super::views::{self, HostCountsView};
use crate::auth::keystone::Unavailable;
use crate::http::api::status;
use crate::planner::Demand;
use crate::planner::rejection::Rejection;
use crate::planning::{Failure, Work};

/// An error of the planner's API. Its code lists the conflicting demands.
pub(super) type Problem = crate::http::api::problem::Problem<Planner>;

/// The conflicting demands, in machine-readable form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contradiction {
    detail: Vec<Demand>,
    /// The number of hosts that each condition of their servers rules out.
    hosts: Vec<HostCountsView>,
}

impl Problem {
    /// 429: the project has too many requests; `Retry-After` says when to retry.
    pub(super) fn too_many(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, detail)
    }

    /// 429: the project sends too many bodies at once.
    pub(super) fn too_many_bodies() -> Self {
        Self::too_many("The project sends too many bodies at once (--max-requests).")
    }

    pub(super) fn render(self) -> Response {
        if self.status == StatusCode::UNAUTHORIZED {
            return no_token(self.www_authenticate.as_deref());
        }
        let mut response = (self.status, self.body().to_string()).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        self.add_headers(headers);
        response
    }

    pub(super) fn body(&self) -> Value {
        let message = message(self.status);
        let explanation = if self.detail.is_empty() { message } else { self.detail.as_str() };
        json!(ErrorBody {
            title: status::title(self.status),
            explanation,
            code: self.status.as_u16(),
            error: ErrorCause { message, traceback: None, kind: class(self.status) },
            detail: self.code.as_ref().map(|why| why.detail.as_slice()),
            hosts: self.code.as_ref().map(|why| why.hosts.as_slice()),
        })
    }
}

/// An error of the planner.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "PlannerError")]
pub(super) struct ErrorBody<'a> {
    title: &'a str,
    explanation: &'a str,
    code: u16,
    error: ErrorCause<'a>,
    /// The conflicting demands, if there is no solution.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a [Demand]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<&'a [HostCountsView]>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "PlannerErrorCause")]
struct ErrorCause<'a> {
    message: &'a str,
    traceback: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'a str,
}

/// Response to a missing or invalid token.
fn no_token(www_authenticate: Option<&str>) -> Response {
    let mut response = (StatusCode::UNAUTHORIZED, "Authentication required").into_response();
    let plain = HeaderValue::from_static("text/plain; charset=UTF-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    if let Some(Ok(value)) = www_authenticate.map(HeaderValue::from_str) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// Returns the constant message of a status.
fn message(status: StatusCode) -> &'static str {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => status::explanation(StatusCode::BAD_REQUEST),
        other => status::explanation(other),
    }
}

/// Returns the name of a status in the framework of the first implementation.
fn class(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "HTTPNotFound",
        StatusCode::METHOD_NOT_ALLOWED => "HTTPMethodNotAllowed",
        StatusCode::REQUEST_TIMEOUT => "HTTPRequestTimeout",
        StatusCode::CONFLICT => "HTTPConflict",
        StatusCode::PAYLOAD_TOO_LARGE => "HTTPRequestEntityTooLarge",
        StatusCode::URI_TOO_LONG => "HTTPRequestURITooLong",
        StatusCode::TOO_MANY_REQUESTS => "HTTPTooManyRequests",
        StatusCode::INTERNAL_SERVER_ERROR => "HTTPInternalServerError",
        StatusCode::SERVICE_UNAVAILABLE => "HTTPServiceUnavailable",
        _ => "HTTPBadRequest",
    }
}

impl From<Unavailable> for Problem {
    fn from(failure: Unavailable) -> Self {
        Self::without_keystone(failure.to_string())
    }
}

impl From<Failure> for Problem {
    /// Converts a planning failure.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Rejected(why) => rejected(&why),
            Failure::PlanNotFound | Failure::ResourceNotFound(_) => {
                Self::not_found(failure.to_string())
            }
            Failure::AmbiguousPlan { stack, plans } => Self::conflict(format!(
                "Valet error: Several projects have a plan for stack '{stack}'; name one by its own \
                 id: {}",
                listed(&plans)
            )),
            Failure::AmbiguousPlacement { id, placements } => Self::conflict(format!(
                "Valet error: Several projects have a placement '{id}'; name one by its own id: {}",
                listed(&placements)
            )),
            Failure::NoPlaces(why) => {
                let detail = why.demands.clone();
                let hosts = why.hosts.iter().map(views::host_counts).collect();
                let code = Some(Box::new(Contradiction { detail, hosts }));
                Self::conflict(format!("Ostro error: {}", why.sentence)).code(code)
            }
            Failure::OutOfTime => Self::unavailable(failure.to_string()).detail(
                "Ostro error: no solution was found within the time limit, and it is unknown \
                 whether there is one; set a longer `timeout`",
            ),
            Failure::NoTurn(work, why) => {
                let what = match work {
                    Work::Reading => "request",
                    Work::Solving => "plan",
                };
                let explanation =
                    format!("Ostro error: the {what} did not get a turn: {why}; try again");
                Self::unavailable(why).detail(explanation)
            }
            // Not a conflict: the plan may be possible.
            Failure::Overtaken(_) => {
                let explanation = format!("Ostro error: {failure}; try again");
                Self::unavailable(failure.to_string()).detail(explanation)
            }
            Failure::Unsettled(_) => {
                let explanation = format!("Valet error: {failure}; try again");
                Self::unavailable(failure.to_string()).detail(explanation)
            }
            Failure::Refused(why) => Self::conflict(format!("Valet error: {why}")),
            Failure::Store(error) => error.into(),
            Failure::Panicked(..) => Self::internal(failure.to_string()),
            Failure::Bug(bug) => bug.into(),
        }
    }
}

fn rejected(why: &Rejection) -> Problem {
    match why {
        Rejection::Invalid(_) => Problem::bad_request(format!("Valet error: {why}")),
        Rejection::GroupNotFound(_)
        | Rejection::NoSuchGroup { .. }
        | Rejection::NotAMember { .. } => Problem::conflict(format!("Valet error: {why}")),
        Rejection::OtherRequest { plan, .. } => {
            Problem::conflict(format!("Valet error: {why}; change it with PUT /v1/plans/{plan}"))
        }
        Rejection::PlacementNotFound => Problem::not_found(why.to_string()),
        Rejection::Unreadable(_) | Rejection::Bug(_) => Problem::internal(why.to_string()),
    }
}

fn listed(ids: &[Uuid]) -> String {
    ids.iter().map(Uuid::to_string).collect::<Vec<_>>().join(", ")
}
