//! Successful responses: status, content, location, modification time.

use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::json;
use crate::model::Bug;

/// The first second, since the Unix epoch, that an HTTP date cannot represent.
const END_OF_YEAR_9999: i64 = 253_402_300_800;

/// The response of a handler.
#[derive(Debug)]
pub(in crate::http) struct Reply {
    status: StatusCode,
    content: Option<Body>,
    media_type: &'static str,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Reply {
    /// 200 with a view as JSON.
    pub(in crate::http) fn json(view: &impl Serialize) -> Self {
        Self::body(Body::from(json::written(view)))
    }

    /// 200 with JSON that is already written or streamed.
    pub(in crate::http) fn body(json: Body) -> Self {
        Self { content: Some(json), ..Self::empty(StatusCode::OK) }
    }

    /// 201 without content.
    pub(in crate::http) fn created() -> Self {
        Self::empty(StatusCode::CREATED)
    }

    pub(in crate::http) fn no_content() -> Self {
        Self::empty(StatusCode::NO_CONTENT)
    }

    fn empty(status: StatusCode) -> Self {
        Self { status, content: None, media_type: "application/json", headers: Vec::new() }
    }

    pub(in crate::http) fn of_type(self, media_type: &'static str) -> Self {
        Self { media_type, ..self }
    }

    pub(in crate::http) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Adds a header, whose value must be valid.
    pub(in crate::http) fn header(mut self, name: HeaderName, text: &str) -> Self {
        let value = HeaderValue::try_from(text)
            .unwrap_or_else(|error| Bug::raise(format!("{text:?} in a header: {error}")));
        self.headers.push((name, value));
        self
    }

    /// Adds a `Location` header: an absolute URI.
    pub(in crate::http) fn at(self, location: &str) -> Self {
        self.header(header::LOCATION, location)
    }

    /// Adds `Last-Modified`, in seconds since the Unix epoch, if known, and `Cache-Control`. Older
    /// versions, which do not have these headers, remove them again (see `Microversion::describe`).
    pub(in crate::http) fn modified(self, seconds: impl Into<Option<i64>>) -> Self {
        let reply = self.header(header::CACHE_CONTROL, "no-cache");
        match seconds.into() {
            Some(seconds) => reply.header(header::LAST_MODIFIED, &http_date(seconds)),
            None => reply,
        }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let media_type = self.content.is_some().then_some(self.media_type);
        let mut response = Response::new(self.content.unwrap_or_else(Body::empty));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if let Some(media_type) = media_type {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        headers.extend(self.headers);
        response
    }
}

/// Formats seconds since the Unix epoch as an HTTP date.
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
    use super::http_date;

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
}
