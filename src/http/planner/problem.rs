//! What went wrong, as a client is told: in JSON, but in plain words to strangers.
//!
//! The names and texts are those of the API this one is, because clients read them.

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use uuid::Uuid;

use super::views;
use crate::http::admission::Crowded;
use crate::http::identity::Stranger;
use crate::http::intake::Unfit;
use crate::http::status;
use crate::keystone::Unavailable;
use crate::model::Bug;
use crate::planner::rejection::Rejection;
use crate::planning::{Failure, Work};
use crate::store;

/// How long a client should wait before it tries again, in seconds.
const RETRY_AFTER: &str = "1";

/// A refusal or a failure. Made by whoever finds it, written by [`Problem::render`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    /// The status of the answer.
    pub(super) status: StatusCode,
    /// What exactly is wrong; empty: what the status says of itself.
    pub(super) explanation: String,
    /// The same for programs, if there is more to say than the explanation does.
    detail: Box<[Value]>,
    /// The methods there are, if the one asked for is not.
    allow: Option<String>,
    /// Where to get a token, if that is what is missing: the value of `WWW-Authenticate`.
    www_authenticate: Option<String>,
    /// What the log says and the client must not see.
    pub(super) cause: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, explanation: impl Into<String>) -> Self {
        let explanation = explanation.into();
        let detail = Box::default();
        Self { status, explanation, detail, allow: None, www_authenticate: None, cause: None }
    }

    /// 400: the request makes no sense.
    pub(super) fn bad_request(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, explanation)
    }

    /// 401: who asks, or who may not, is told no more than that.
    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "")
    }

    /// 404: there is no such thing.
    pub(super) fn not_found(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, explanation)
    }

    /// 405: not by this method; `allow` lists those there are.
    pub(super) fn method_not_allowed(method: &Method, allow: String) -> Self {
        let explanation = format!("The {method} method is not allowed.");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, explanation) }
    }

    /// 409: it clashes with what is there.
    pub(super) fn conflict(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, explanation)
    }

    /// 429: the project asks for too much at once; the header `Retry-After` says when to ask again.
    fn too_many(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, explanation)
    }

    /// 500: a fault of ours. The cause goes to the log only.
    pub(super) fn internal(cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "") }
    }

    /// 429: the project sends too many bodies at once.
    pub(super) fn too_many_bodies() -> Self {
        Self::too_many("Too many bodies of the project arrive at once (--max-requests).")
    }

    /// 503: not now. The cause goes to the log only.
    pub(super) fn unavailable(cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "") }
    }

    /// 503: not now, for a reason that the client may know.
    pub(super) fn not_now(explanation: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, explanation)
    }

    /// 503: Keystone does not say.
    fn without_keystone(cause: String) -> Self {
        Self::unavailable(cause).explained("The Keystone service is temporarily unavailable.")
    }

    /// The same with another explanation.
    pub(super) fn explained(self, explanation: impl Into<String>) -> Self {
        Self { explanation: explanation.into(), ..self }
    }

    /// The same with more for programs.
    pub(super) fn detail(self, detail: Vec<Value>) -> Self {
        Self { detail: detail.into(), ..self }
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

    fn body(&self) -> Value {
        let message = message(self.status);
        let explanation =
            if self.explanation.is_empty() { message } else { self.explanation.as_str() };
        let mut body = json!({
            "title": status::title(self.status),
            "explanation": explanation,
            "code": self.status.as_u16(),
            "error": {"message": message, "traceback": null, "type": class(self.status)},
        });
        if let (false, Some(body)) = (self.detail.is_empty(), body.as_object_mut()) {
            body.insert("detail".to_owned(), Value::Array(self.detail.to_vec()));
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

impl From<Stranger> for Problem {
    fn from(stranger: Stranger) -> Self {
        match stranger {
            Stranger::Unknown => Self::unauthorized(),
            Stranger::TurnedAway(www_authenticate) => {
                Self { www_authenticate: Some(www_authenticate), ..Self::unauthorized() }
            }
            Stranger::Unavailable(cause) => Self::without_keystone(cause),
        }
    }
}

impl From<Unavailable> for Problem {
    fn from(failure: Unavailable) -> Self {
        Self::without_keystone(failure.to_string())
    }
}

impl From<Crowded> for Problem {
    fn from(crowded: Crowded) -> Self {
        Self::too_many(match crowded {
            Crowded::Full(at_once, waiting) => format!(
                "{at_once} requests of the project are planned (--planner-project-requests), and \
                 {waiting} wait (--planner-project-waiting)."
            ),
            Crowded::Late(at_once, patience) => format!(
                "{at_once} requests of the project are planned (--planner-project-requests), and \
                 there was no place within {} s (--planner-timeout-max).",
                patience.as_secs_f64()
            ),
        })
    }
}

impl From<Unfit> for Problem {
    fn from(unfit: Unfit) -> Self {
        let most = |bytes| format!("At most {bytes} bytes are accepted.");
        match unfit {
            Unfit::Busy(cause) => Self::unavailable(cause),
            Unfit::LongUri(bytes) => Self::new(StatusCode::URI_TOO_LONG, most(bytes)),
            Unfit::LongBody(bytes) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, most(bytes)),
            Unfit::LateBody => Self::new(StatusCode::REQUEST_TIMEOUT, ""),
            Unfit::LostBody(why) => Self::bad_request(why),
        }
    }
}

impl From<Failure> for Problem {
    /// What a client is told of a plan that was not made.
    fn from(failure: Failure) -> Self {
        let overtaken = "Ostro error: other requests were faster every time the plan was booked";
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
                Self::conflict(format!("Ostro error: {}", why.sentence)).detail(detail)
            }
            Failure::OutOfTime => Self::unavailable(failure.to_string()).explained(
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
                Self::unavailable(why).explained(explanation)
            }
            Failure::Overtaken(why) => Self::conflict(format!("{overtaken} ({why}); try again")),
            Failure::Unsettled(_) => Self::conflict(format!("Valet error: {failure}; try again")),
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
        Rejection::OtherServers { plan, .. } => {
            Problem::conflict(format!("Valet error: {why}; change it with PUT /v1/plans/{plan}"))
        }
        Rejection::PlacementNotFound => Problem::not_found(why.to_string()),
        Rejection::Unreadable(_) | Rejection::Bug(_) => Problem::internal(why.to_string()),
    }
}

fn listed(ids: &[Uuid]) -> String {
    ids.iter().map(Uuid::to_string).collect::<Vec<_>>().join(", ")
}

impl From<Bug> for Problem {
    fn from(bug: Bug) -> Self {
        Self::internal(bug.to_string())
    }
}

impl From<store::Error> for Problem {
    /// What a failure of the store means wherever a resource does not say otherwise.
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Refused(why) => Self::conflict(why.to_string()),
            store::Error::Unavailable(cause)
            | store::Error::Again(cause)
            | store::Error::Locked(cause) => Self::unavailable(cause),
            error @ (store::Error::Inconsistent { .. } | store::Error::Bug(_)) => {
                Self::internal(error.to_string())
            }
        }
    }
}
