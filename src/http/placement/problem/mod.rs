//! Errors of the Placement API: status, code, detail, and their three representations.
//!
//! The texts around the detail are those of the reference's framework, because clients read them.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;

use super::accept;
use super::dialect::{Offered, Placement};
use super::microversion::{self, Microversion};
use crate::auth::policy::Denied;
use crate::http::api::json::JSON;
use crate::http::api::status::{explanation, title};
use crate::model::Refusal;
use crate::store;

/// An error of the Placement API.
pub(in crate::http) type Problem = crate::http::api::problem::Problem<Placement>;

/// The codes of the API.
#[derive(Clone, Copy, Debug, Default, JsonSchema, PartialEq, Eq, Serialize)]
pub(in crate::http) enum Code {
    /// No particular code.
    #[default]
    #[serde(rename = "placement.undefined_code")]
    Undefined,
    /// The inventory has allocations.
    #[serde(rename = "placement.inventory.inuse")]
    InventoryInUse,
    /// The generation has changed: read again and retry.
    #[serde(rename = "placement.concurrent_update")]
    ConcurrentUpdate,
    /// The name or UUID is already in use.
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
    /// A query parameter is repeated that must not be.
    #[serde(rename = "placement.query.duplicate_key")]
    DuplicateKey,
    /// A query parameter is invalid.
    #[serde(rename = "placement.query.bad_value")]
    BadValue,
    /// A query parameter is missing.
    #[serde(rename = "placement.query.missing_value")]
    MissingValue,
}

/// Detail of internal errors.
const OUR_FAULT: &str = "An unexpected error prevented the server from fulfilling your request.";

impl Problem {
    /// 403: the policy does not allow it.
    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// 406: the client does not accept this form or version.
    pub(super) fn not_acceptable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, detail)
    }

    /// 415: the body is not JSON.
    pub(super) fn unsupported_media_type(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
    }

    /// Renders the response, in the representation that the client prefers.
    pub(super) fn render(self, to: &Recipient<'_>) -> Response {
        if let Some(www_authenticate) = &self.www_authenticate {
            return no_token(www_authenticate);
        }
        let (content_type, body) = match to.offered.accept.best_of(&[accept::HTML, JSON]) {
            Some(accept::HTML) => ("text/html; charset=UTF-8", self.html(to)),
            Some(_) => (JSON, self.json(to)),
            None => ("text/plain; charset=UTF-8", self.plain(to)),
        };
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.add_headers(headers);
        response
    }

    fn json(&self, to: &Recipient<'_>) -> String {
        let status = self.status.as_u16();
        if self.status == StatusCode::UNAUTHORIZED {
            // The reference's authentication sends this error in a form of its own.
            let body = serde_json::json!({
                "message": self.body(to, str::to_owned),
                "code": format!("{status} {}", title(self.status)),
                "title": title(self.status),
            });
            return body.to_string();
        }
        let no_version = to.microversion.is_none() && self.status == StatusCode::NOT_ACCEPTABLE;
        let error = ErrorView {
            status,
            title: title(self.status),
            detail: &strip_tags(&self.body(to, str::to_owned)),
            code: to
                .microversion
                .and_then(|microversion| microversion.show(microversion::ERROR_CODES, self.code)),
            request_id: to.request_id,
            max_version: no_version.then(|| microversion::LATEST.to_string()),
            min_version: no_version.then(|| microversion::INITIAL.to_string()),
        };
        serde_json::json!(Errors { errors: [error] }).to_string()
    }

    fn html(&self, to: &Recipient<'_>) -> String {
        let status = format!("{} {}", self.status.as_u16(), title(self.status));
        let body = self.body(to, escape);
        format!(
            "<html>\n <head>\n  <title>{status}</title>\n </head>\n <body>\n  <h1>{status}</h1>\n  \
             {body}\n </body>\n</html>"
        )
    }

    fn plain(&self, to: &Recipient<'_>) -> String {
        let body = strip_tags(&self.body(to, str::to_owned));
        format!("{} {}\n\n{body}", self.status.as_u16(), title(self.status))
    }

    /// Returns the text around the detail, with markup that the other forms than HTML remove.
    fn body(&self, to: &Recipient<'_>, escape: fn(&str) -> String) -> String {
        let is_ours = self.status == StatusCode::INTERNAL_SERVER_ERROR && self.detail.is_empty();
        let detail = escape(if is_ours { OUR_FAULT } else { &self.detail });
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
                escape(to.offered.accept.as_str())
            ),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => format!(
                "The request media type {} is not supported by this server.\n<br /><br />\n{detail}",
                escape(to.offered.content_type.as_deref().unwrap_or("None"))
            ),
            status => format!("{}<br /><br />\n{detail}\n\n", escape(explanation(status))),
        }
    }
}

/// Response to a missing or invalid token. It is the same whatever the client accepts.
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

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        Self::forbidden(denied.to_string())
    }
}

/// Conversion of the results of changes.
pub(in crate::http) trait RefusedAs<T> {
    /// Converts a refusal with `problem`; the result has the faults of the refusal. Other errors
    /// are converted as for every request.
    ///
    /// # Errors
    /// The change was refused, or failed.
    fn refused_as(self, problem: impl FnOnce(Refusal) -> Problem) -> Result<T, Problem>;
}

impl<T> RefusedAs<T> for store::Result<T> {
    fn refused_as(self, problem: impl FnOnce(Refusal) -> Problem) -> Result<T, Problem> {
        self.map_err(|error| match error {
            store::Error::Refused(why, faults) => problem(why).faults(faults),
            other => other.into(),
        })
    }
}

/// Returns whether the store refuses because something does not exist.
pub(super) fn is_absence(why: &Refusal) -> bool {
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

/// The request that a problem responds to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipient<'r> {
    pub(super) method: &'r Method,
    /// Content type and accepted types.
    pub(super) offered: &'r Offered,
    /// The requested version; `None` if it is not known yet.
    pub(super) microversion: Option<Microversion>,
    pub(super) request_id: &'r str,
}

/// An error response.
#[derive(JsonSchema, Serialize)]
pub(super) struct Errors<'a> {
    pub(super) errors: [ErrorView<'a>; 1],
}

/// An error.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Error")]
pub(super) struct ErrorView<'a> {
    pub(super) status: u16,
    pub(super) title: &'a str,
    pub(super) detail: &'a str,
    /// Its code, from 1.23 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Code>,
    pub(super) request_id: &'a str,
    /// The latest version, if the requested one does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_version: Option<String>,
    /// The first version, if the requested one does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) min_version: Option<String>,
}

/// Removes markup: line breaks become spaces, `<br>` becomes a line break, other tags are dropped.
/// As in the reference, this includes the client's text.
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
