//! Answers that went well: status, content, where the thing is, when it last changed.

use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::accept;
use crate::model::Bug;

/// The first second, since the Unix epoch, that HTTP cannot write.
const END_OF_YEAR_9999: i64 = 253_402_300_800;

/// An answer that a handler gives.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    json: Option<Body>,
    location: Option<String>,
    /// Whether it says that it must not be kept.
    no_cache: bool,
    /// When the thing last changed, if that is known.
    modified: Option<i64>,
}

impl Reply {
    /// 200 with a view as JSON.
    pub(super) fn json(view: &impl Serialize) -> Self {
        // Views are plain data with text keys, which can always be written.
        let json = serde_json::to_vec(view)
            .unwrap_or_else(|error| Bug::raise(format!("a view cannot be written: {error}")));
        Self::bytes(json.into())
    }

    /// 200 with JSON that is already written.
    pub(super) fn bytes(json: Bytes) -> Self {
        Self::body(Body::from(json))
    }

    /// 200 with JSON that is written while it is sent.
    pub(super) fn body(json: Body) -> Self {
        Self { json: Some(json), ..Self::empty(StatusCode::OK) }
    }

    /// 201 without content.
    pub(super) fn created() -> Self {
        Self::empty(StatusCode::CREATED)
    }

    /// 204.
    pub(super) fn no_content() -> Self {
        Self::empty(StatusCode::NO_CONTENT)
    }

    fn empty(status: StatusCode) -> Self {
        Self { status, json: None, location: None, no_cache: false, modified: None }
    }

    /// The same with another status.
    pub(super) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// The same, saying where the thing is: an absolute URI.
    pub(super) fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// The same, saying when the thing last changed, in seconds since the Unix epoch, if that is
    /// known, and that it must not be kept. Versions that do not know these headers lose them again
    /// (see `Microversion::describe`).
    pub(super) fn modified(self, seconds: impl Into<Option<i64>>) -> Self {
        Self { no_cache: true, modified: seconds.into(), ..self }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let has_content = self.json.is_some();
        let mut response = Response::new(self.json.unwrap_or_else(Body::empty));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if has_content {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(accept::JSON));
        }
        if let Some(location) = self.location {
            headers.insert(header::LOCATION, value(&location));
        }
        if self.no_cache {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            if let Some(seconds) = self.modified {
                headers.insert(header::LAST_MODIFIED, value(&http_date(seconds)));
            }
        }
        response
    }
}

/// The value of a header. Ours can always be written.
fn value(text: &str) -> HeaderValue {
    HeaderValue::try_from(text)
        .unwrap_or_else(|error| Bug::raise(format!("{text:?} in a header: {error}")))
}

/// A moment as HTTP writes it: seconds since the Unix epoch.
fn http_date(seconds: i64) -> String {
    let since = u64::try_from(seconds)
        .ok()
        .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    // `httpdate` writes years of four digits.
    let moment = since.filter(|_| seconds < END_OF_YEAR_9999);
    let moment = moment.unwrap_or_else(|| Bug::raise(format!("the moment {seconds} as a date")));
    httpdate::fmt_http_date(moment)
}

#[cfg(test)]
mod tests {
    use axum::http::header;
    use axum::response::IntoResponse;

    use super::{Reply, http_date};
    use crate::http::placement::microversion::{CACHE_HEADERS, Microversion, NESTED_PROVIDERS};

    #[test]
    fn a_moment_is_written_as_http_writes_it() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    #[should_panic(expected = "the moment 9223372036854775807")]
    fn a_moment_that_is_none_is_not_passed_off_as_another() {
        http_date(i64::MAX);
    }

    #[test]
    fn cache_headers_are_shown_from_1_15() {
        let shown = |asked: Microversion| {
            let mut response = Reply::no_content().modified(0).into_response();
            asked.describe(response.headers_mut());
            let has = |name| response.headers().contains_key(name);
            (has(header::LAST_MODIFIED), has(header::CACHE_CONTROL), has(header::CONTENT_TYPE))
        };
        assert_eq!(shown(NESTED_PROVIDERS), (false, false, false));
        assert_eq!(shown(CACHE_HEADERS), (true, true, false));
    }
}
