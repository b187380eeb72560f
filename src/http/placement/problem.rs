//! What went wrong, as a client is told: status, code, detail, and its three representations.
//!
//! The texts around the detail are those of the reference's framework, because clients read them.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use regex::Regex;
use serde::Serialize;

use super::accept::{self, Accept};
use super::microversion::{self, Microversion};
use crate::http::identity::Stranger;
use crate::http::intake::Unfit;
use crate::http::status::{explanation, title};
use crate::model::{Bug, Refusal};
use crate::policy::Denied;
use crate::store;

/// How long a client should wait before it tries again, in seconds.
const RETRY_AFTER: &str = "1";

/// A refusal or a failure. Made by whoever finds it, written by [`Problem::render`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Problem {
    /// The status of the answer.
    pub(super) status: StatusCode,
    /// What programs go by (microversion 1.23).
    pub(super) code: Code,
    /// What people go by.
    pub(super) detail: String,
    /// The methods there are, if the one asked for is not.
    pub(super) allow: Option<String>,
    /// Where to get a token, if that is what is missing: the value of `WWW-Authenticate`.
    pub(super) www_authenticate: Option<String>,
    /// What the log says and the client must not see.
    pub(super) cause: Option<String>,
}

/// The codes of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::http) enum Code {
    /// No particular one.
    #[default]
    #[serde(rename = "placement.undefined_code")]
    Undefined,
    /// Something is still allocated.
    #[serde(rename = "placement.inventory.inuse")]
    InventoryInUse,
    /// Somebody else was faster: read again and retry.
    #[serde(rename = "placement.concurrent_update")]
    ConcurrentUpdate,
    /// The name or UUID is taken.
    #[serde(rename = "placement.duplicate_name")]
    DuplicateName,
    /// The provider has allocations.
    #[serde(rename = "placement.resource_provider.inuse")]
    ProviderInUse,
    /// The provider has children.
    #[serde(rename = "placement.resource_provider.cannot_delete_parent")]
    CannotDeleteParent,
    /// A provider named in a body does not exist.
    #[serde(rename = "placement.resource_provider.not_found")]
    ProviderNotFound,
    /// A query parameter that may be given once is repeated.
    #[serde(rename = "placement.query.duplicate_key")]
    DuplicateKey,
    /// A query parameter makes no sense.
    #[serde(rename = "placement.query.bad_value")]
    BadValue,
    /// A query parameter is missing.
    #[serde(rename = "placement.query.missing_value")]
    MissingValue,
}

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let (code, detail) = (Code::Undefined, detail.into());
        Self { status, code, detail, allow: None, www_authenticate: None, cause: None }
    }

    /// 400: the request makes no sense.
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 401: who asks?
    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "")
    }

    /// 401: a token is needed, to be had where `www_authenticate` says.
    pub(super) fn turned_away(www_authenticate: String) -> Self {
        let www_authenticate = Some(www_authenticate);
        Self { www_authenticate, ..Self::new(StatusCode::UNAUTHORIZED, "") }
    }

    /// 403: not for this caller.
    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// 404: there is no such thing.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// 405: not by this method; `allow` lists those there are.
    pub(super) fn method_not_allowed(detail: &str, allow: String) -> Self {
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail) }
    }

    /// 406: not in a form or version the client accepts.
    pub(super) fn not_acceptable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, detail)
    }

    /// 408: the body did not arrive in time.
    pub(super) fn request_timeout() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "")
    }

    /// 409: it clashes with what is stored.
    pub(super) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// 413: the body is longer than `bytes`.
    pub(super) fn body_too_large(bytes: usize) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, format!("At most {bytes} bytes are accepted."))
    }

    /// 414: the URI is longer than `bytes`.
    pub(super) fn uri_too_long(bytes: usize) -> Self {
        Self::new(StatusCode::URI_TOO_LONG, format!("At most {bytes} bytes are accepted."))
    }

    /// 415: the body is not JSON.
    pub(super) fn unsupported_media_type(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
    }

    /// 500: a fault of ours. The cause goes to the log only.
    pub(super) fn internal(cause: impl Into<String>) -> Self {
        let detail = "An unexpected error prevented the server from fulfilling your request.";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self { cause: Some(cause.into()), ..Self::new(status, detail) }
    }

    /// 503: not now, be it that something that is needed is away. The cause goes to the log only.
    pub(super) fn unavailable(cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "") }
    }

    /// 503: answering takes more than may be spent on one request.
    pub(super) fn overloaded(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// The same with a code.
    pub(super) fn code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// The answer, in the representation that the client prefers.
    pub(super) fn render(self, to: &Recipient) -> Response {
        if let Some(www_authenticate) = &self.www_authenticate {
            return no_token(www_authenticate);
        }
        let (content_type, body) = match to.accept.best_of(&[accept::HTML, accept::JSON]) {
            Some(accept::HTML) => ("text/html; charset=UTF-8", self.html(to)),
            Some(_) => (accept::JSON, self.json(to)),
            None => ("text/plain; charset=UTF-8", self.plain(to)),
        };
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(Ok(allow)) = self.allow.map(HeaderValue::try_from) {
            headers.insert(header::ALLOW, allow);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }

    fn json(&self, to: &Recipient) -> String {
        let status = self.status.as_u16();
        if self.status == StatusCode::UNAUTHORIZED {
            // The one error that the reference's authentication answers without the API's shape.
            let body = serde_json::json!({
                "message": self.body(to, str::to_owned),
                "code": format!("{status} {}", title(self.status)),
                "title": title(self.status),
            });
            return body.to_string();
        }
        let no_version = to.asked.is_none() && self.status == StatusCode::NOT_ACCEPTABLE;
        let error = ErrorView {
            status,
            title: title(self.status),
            detail: strip_tags(&self.body(to, str::to_owned)),
            code: to.asked.and_then(|asked| asked.show(microversion::ERROR_CODES, self.code)),
            request_id: &to.request_id,
            max_version: no_version.then(|| microversion::LATEST.to_string()),
            min_version: no_version.then(|| microversion::INITIAL.to_string()),
        };
        serde_json::json!({ "errors": [error] }).to_string()
    }

    fn html(&self, to: &Recipient) -> String {
        let status = format!("{} {}", self.status.as_u16(), title(self.status));
        let body = self.body(to, escape);
        format!(
            "<html>\n <head>\n  <title>{status}</title>\n </head>\n <body>\n  <h1>{status}</h1>\n  \
             {body}\n </body>\n</html>"
        )
    }

    fn plain(&self, to: &Recipient) -> String {
        let body = strip_tags(&self.body(to, str::to_owned));
        format!("{} {}\n\n{body}", self.status.as_u16(), title(self.status))
    }

    /// The detail in its setting, with the markup that HTML keeps and the others lose.
    fn body(&self, to: &Recipient, escape: fn(&str) -> String) -> String {
        let detail = escape(&self.detail);
        match self.status {
            StatusCode::METHOD_NOT_ALLOWED => {
                let method = escape(to.method.as_str());
                format!(
                    "The method {method} is not allowed for this resource. <br /><br />\n{detail}"
                )
            }
            StatusCode::NOT_ACCEPTABLE => format!(
                "The resource could not be generated that was acceptable to your browser\n\
                 (content of type {}. <br /><br />\n{detail}",
                escape(to.accept.as_str())
            ),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => format!(
                "The request media type {} is not supported by this server.\n<br /><br />\n{detail}",
                escape(to.content_type.as_deref().unwrap_or("None"))
            ),
            status => format!("{}<br /><br />\n{detail}\n\n", escape(explanation(status))),
        }
    }
}

/// The answer to who has no valid token, which looks the same whatever the client accepts.
fn no_token(www_authenticate: &str) -> Response {
    let body = serde_json::json!({"error": {
        "code": 401,
        "title": "Unauthorized",
        "message": "The request you have made requires authentication.",
    }});
    let mut response = (StatusCode::UNAUTHORIZED, body.to_string()).into_response();
    let json = HeaderValue::from_static("application/json; charset=UTF-8");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    if let Ok(value) = HeaderValue::from_str(www_authenticate) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// An answer that only [`Problem::render`] completes: what the client accepts is known outside.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        Self::forbidden(denied.to_string())
    }
}

impl From<Stranger> for Problem {
    fn from(stranger: Stranger) -> Self {
        match stranger {
            Stranger::Unknown => Self::unauthorized(),
            Stranger::TurnedAway(www_authenticate) => Self::turned_away(www_authenticate),
            Stranger::Unavailable(cause) => Self {
                detail: "The Keystone service is temporarily unavailable.".to_owned(),
                ..Self::unavailable(cause)
            },
        }
    }
}

impl From<Unfit> for Problem {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Busy(cause) => Self::unavailable(cause),
            Unfit::LongUri(bytes) => Self::uri_too_long(bytes),
            Unfit::LongBody(bytes) => Self::body_too_large(bytes),
            Unfit::LateBody => Self::request_timeout(),
            Unfit::LostBody(why) => Self::bad_request(why),
        }
    }
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
            store::Error::Refused(why) if is_absence(&why) => Self::not_found(why.to_string()),
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

fn is_absence(why: &Refusal) -> bool {
    matches!(
        why,
        Refusal::ProviderNotFound(_)
            | Refusal::ClassNotFound(_)
            | Refusal::TraitsNotFound(_)
            | Refusal::InventoryNotFound(_)
            | Refusal::InventoryNotFoundForDelete(_)
            | Refusal::NoAllocations(_)
    )
}

/// To whom a problem is told.
#[derive(Clone, Debug)]
pub(super) struct Recipient {
    /// The method of the request.
    pub(super) method: Method,
    /// What the client accepts.
    pub(super) accept: Accept,
    /// The content type of the request, without parameters.
    pub(super) content_type: Option<String>,
    /// The version asked for; `None` as long as it is not known.
    pub(super) asked: Option<Microversion>,
    /// The id of the request.
    pub(super) request_id: String,
}

#[derive(Serialize)]
struct ErrorView<'a> {
    status: u16,
    title: &'a str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_version: Option<String>,
}

/// Text without its markup: line breaks become blanks, `<br>` becomes a line break, other tags go.
/// What a client wrote goes the same way, as in the reference.
fn strip_tags(text: &str) -> String {
    #[expect(clippy::unwrap_used, reason = "the patterns are constants, and a test uses them")]
    static PATTERNS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
        ["(?is)<br.*?>", "<!--|-->", "(?s)<.*?>"].map(|it| Regex::new(it).unwrap())
    });
    let [line_break, comment, tag] = &*PATTERNS;
    let text = text.replace('\n', " ").replace('\r', "");
    let text = line_break.replace_all(&text, "\n");
    let text = comment.replace_all(&text, "");
    tag.replace_all(&text, "").into_owned()
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#x27;"),
            ascii if ascii.is_ascii() => escaped.push(ascii),
            // Writing to a string cannot fail.
            other => drop(write!(escaped, "&#{};", u32::from(other))),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
