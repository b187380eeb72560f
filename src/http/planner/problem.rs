//! What went wrong, as a client is told: in JSON, but in plain words to strangers.
//!
//! The names and texts are those of the API this one is, because clients read them.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Planner, views};
use crate::auth::keystone::Unavailable;
use crate::http::api::problem::RETRY_AFTER;
use crate::http::api::status;
use crate::planner::rejection::Rejection;
use crate::planning::{Failure, Work};

/// What went wrong with a request of this API. Its code lists the demands that are in the way.
pub(super) type Problem = crate::http::api::problem::Problem<Planner>;

/// Why nothing fits, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contradiction {
    /// The demands that contradict each other.
    detail: Vec<Value>,
    /// How many hosts each condition of their servers rules out.
    hosts: Vec<Value>,
}

impl Problem {
    /// 429: the project asks for too much at once; the header `Retry-After` says when to ask again.
    pub(super) fn too_many(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, detail)
    }

    /// 429: the project sends too many bodies at once.
    pub(super) fn too_many_bodies() -> Self {
        Self::too_many("Too many bodies of the project arrive at once (--max-requests).")
    }

    /// The answer.
    pub(super) fn render(self) -> Response {
        if self.status == StatusCode::UNAUTHORIZED {
            return no_token(self.www_authenticate.as_deref());
        }
        let mut response = (self.status, self.body().to_string()).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(Ok(allow)) = self.allow.map(HeaderValue::try_from) {
            headers.insert(header::ALLOW, allow);
        }
        if [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&self.status) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }

    /// The body of the answer.
    pub(super) fn body(&self) -> Value {
        let message = message(self.status);
        let explanation = if self.detail.is_empty() { message } else { self.detail.as_str() };
        let mut body = json!({
            "title": status::title(self.status),
            "explanation": explanation,
            "code": self.status.as_u16(),
            "error": {"message": message, "traceback": null, "type": class(self.status)},
        });
        if let (Some(why), Some(body)) = (&self.code, body.as_object_mut()) {
            body.insert("detail".to_owned(), Value::Array(why.detail.clone()));
            body.insert("hosts".to_owned(), Value::Array(why.hosts.clone()));
        }
        body
    }
}

/// The answer to who has no token that will do.
fn no_token(www_authenticate: Option<&str>) -> Response {
    let mut response = (StatusCode::UNAUTHORIZED, "Authentication required").into_response();
    let plain = HeaderValue::from_static("text/plain; charset=UTF-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    if let Some(Ok(value)) = www_authenticate.map(HeaderValue::from_str) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// What a status always says.
fn message(status: StatusCode) -> &'static str {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => status::explanation(StatusCode::BAD_REQUEST),
        other => status::explanation(other),
    }
}

/// What the framework of the first implementation calls a status.
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
    /// What a client is told of a plan that was not made.
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
                let detail = why.demands.iter().map(views::demand).collect();
                let hosts = why.hosts.iter().map(views::host_counts).collect();
                let code = Some(Box::new(Contradiction { detail, hosts }));
                Self::conflict(format!("Ostro error: {}", why.sentence)).code(code)
            }
            Failure::OutOfTime => Self::unavailable(failure.to_string()).detail(
                "Ostro error: no places were found within the time there was, and it is not known \
                 whether there are any; allow more with `timeout`",
            ),
            Failure::NoTurn(work, why) => {
                let what = match work {
                    Work::Reading => "request",
                    Work::Solving => "plan",
                };
                let explanation =
                    format!("Ostro error: the {what} did not come to its turn: {why}; try again");
                Self::unavailable(why).detail(explanation)
            }
            // No conflict: nothing says that the plan cannot be made.
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
