//! Errors of requests. Each API renders them in its own form: [`Dialect::render`].

use std::fmt;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::dialect::Dialect;
pub(in crate::http) use super::dialect::Problem;
use super::intake::IntakeError;
use super::large_responses;
use crate::fairness::rate_limits::RateExceeded;
use crate::http::layers::identity::IdentityError;
use crate::model::claim::Faults;
use crate::model::{Bug, Refusal};
use crate::store;

/// Statuses with `Retry-After`, and its value in seconds.
const RETRIED: [StatusCode; 2] = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
const RETRY_AFTER: u16 = 1;

impl<D: Dialect> Problem<D> {
    pub(in crate::http) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let (code, detail) = (D::Code::default(), detail.into());
        Self {
            status,
            code,
            detail,
            allow: None,
            www_authenticate: None,
            retry_after: RETRIED.contains(&status).then_some(RETRY_AFTER),
            cause: None,
            faults: None,
        }
    }

    /// 400: the request is invalid.
    pub(in crate::http) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 401: the caller is not authenticated, or not allowed.
    pub(in crate::http) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "")
    }

    pub(in crate::http) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// 405: `allow` lists the allowed methods.
    pub(in crate::http) fn method_not_allowed(detail: impl Into<String>, allow: String) -> Self {
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail) }
    }

    /// 409: conflict with the stored state.
    pub(in crate::http) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// 500: an internal error. The cause is only logged.
    pub(in crate::http) fn internal(cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, "") }
    }

    /// 503: temporarily unavailable, for instance because a dependency is. The cause is only
    /// logged.
    pub(in crate::http) fn unavailable(cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..Self::not_now("") }
    }

    /// 503: temporarily unavailable, for a reason that the client may see.
    pub(in crate::http) fn not_now(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// 503: Keystone is not available.
    pub(in crate::http) fn without_keystone(cause: String) -> Self {
        Self::unavailable(cause).detail("The Keystone service is temporarily unavailable.")
    }

    pub(in crate::http) fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    pub(in crate::http) fn code(self, code: D::Code) -> Self {
        Self { code, ..self }
    }

    /// Adds `Allow` and `Retry-After` to the headers of the response.
    pub(in crate::http) fn add_headers(&self, headers: &mut HeaderMap) {
        if let Some(Ok(allow)) = self.allow.as_deref().map(HeaderValue::from_str) {
            headers.insert(header::ALLOW, allow);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
    }

    /// Converts it into a problem of another API.
    pub(in crate::http) fn into_dialect<E: Dialect>(
        self,
        code: impl FnOnce(D::Code) -> E::Code,
    ) -> Problem<E> {
        Problem {
            status: self.status,
            code: code(self.code),
            detail: self.detail,
            allow: self.allow,
            www_authenticate: self.www_authenticate,
            retry_after: self.retry_after,
            cause: self.cause,
            faults: self.faults,
        }
    }

    /// Adds the faults of the refused change.
    pub(in crate::http) fn faults(self, faults: Box<Faults>) -> Self {
        Self { faults: Some(faults), ..self }
    }

    /// Adds the facts of a refusal, as faults.
    pub(in crate::http) fn faults_of(self, refusal: &Refusal) -> Self {
        self.faults(Box::new(Faults::of(refusal)))
    }
}

/// For the log: the cause, or the detail.
impl<D: Dialect> fmt::Display for Problem<D> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.cause.as_ref().unwrap_or(&self.detail))
    }
}

/// A response without a body. The outermost layer writes the body, because it knows what the client
/// accepts.
impl<D: Dialect> IntoResponse for Problem<D> {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl<D: Dialect> From<IdentityError> for Problem<D> {
    fn from(stranger: IdentityError) -> Self {
        match stranger {
            IdentityError::NoValidToken => Self::unauthorized(),
            IdentityError::Challenged(www_authenticate) => {
                Self { www_authenticate: Some(www_authenticate), ..Self::unauthorized() }
            }
            IdentityError::Unavailable(cause) => Self::without_keystone(cause),
        }
    }
}

impl<D: Dialect> From<IntakeError> for Problem<D> {
    fn from(unfit: IntakeError) -> Self {
        let most = |bytes| format!("At most {bytes} bytes are accepted.");
        match unfit {
            IntakeError::Busy(cause) => Self::unavailable(cause),
            IntakeError::UriTooLong(bytes) => Self::new(StatusCode::URI_TOO_LONG, most(bytes)),
            IntakeError::BodyTooLong(bytes) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, most(bytes))
            }
            IntakeError::BodyTimeout => Self::new(StatusCode::REQUEST_TIMEOUT, ""),
            IntakeError::BodyBroken(why) => Self::bad_request(why),
        }
    }
}

impl<D: Dialect> From<large_responses::Refusal> for Problem<D> {
    fn from(refusal: large_responses::Refusal) -> Self {
        match refusal {
            large_responses::Refusal::NoRoom => Self::not_now(
                "too many large responses are being sent; retry later, or request less",
            ),
            large_responses::Refusal::Bug(bug) => bug.into(),
        }
    }
}

impl<D: Dialect> From<RateExceeded> for Problem<D> {
    fn from(RateExceeded { of, wait }: RateExceeded) -> Self {
        let detail = format!("The {of} sends too many requests (--rate-limit-{of}).");
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, detail);
        let seconds = u16::try_from(wait.as_secs() + 1).map_or(u16::MAX, |seconds| seconds);
        Self { retry_after: Some(seconds), ..problem }
    }
}

impl<D: Dialect> From<Bug> for Problem<D> {
    fn from(bug: Bug) -> Self {
        Self::internal(bug.to_string())
    }
}

impl<D: Dialect> From<Refusal> for Problem<D> {
    fn from(why: Refusal) -> Self {
        Self::new(D::status(&why), why.to_string())
    }
}

impl<D: Dialect> From<store::Error> for Problem<D> {
    /// Converts failures of the store, unless a resource handles them otherwise.
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Refused(why, faults) => Self::from(why).faults(faults),
            store::Error::Unavailable(cause)
            | store::Error::Again(cause)
            | store::Error::Locked(cause) => Self::unavailable(cause),
            store::Error::Maintenance(reason) => {
                Self::not_now(format!("Writes are refused for maintenance: {reason}"))
            }
            error @ (store::Error::Inconsistent { .. } | store::Error::Bug(_)) => {
                Self::internal(error.to_string())
            }
        }
    }
}
