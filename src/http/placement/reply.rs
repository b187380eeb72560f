//! Answers that went well: status, content, where the thing is, when it last changed.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::accept;
use super::microversion::{CACHE_HEADERS, Microversion};
use crate::model::Bug;

/// An answer. Made by a handler, written by [`Reply::render`].
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
    /// known, and that it must not be kept. Versions that do not tell leave it out.
    pub(super) fn modified(self, seconds: impl Into<Option<i64>>) -> Self {
        Self { no_cache: true, modified: seconds.into(), ..self }
    }

    /// The answer for a version.
    pub(super) fn render(self, asked: Microversion) -> Response {
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
        if self.no_cache && asked.has(CACHE_HEADERS) {
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

/// A moment as HTTP writes it.
fn http_date(seconds: i64) -> String {
    const FORMAT: &[BorrowedFormatItem<'_>] = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    let moment = OffsetDateTime::from_unix_timestamp(seconds)
        .unwrap_or_else(|error| Bug::raise(format!("the moment {seconds}: {error}")));
    moment
        .format(FORMAT)
        .unwrap_or_else(|error| Bug::raise(format!("the moment {seconds}: {error}")))
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::{Reply, http_date};
    use crate::http::placement::microversion::{CACHE_HEADERS, NESTED_PROVIDERS};

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
        let shown = |asked| {
            let response = Reply::no_content().modified(0).render(asked);
            let has = |name| response.headers().contains_key(name);
            (has(header::LAST_MODIFIED), has(header::CACHE_CONTROL), has(header::CONTENT_TYPE))
        };
        assert_eq!(shown(NESTED_PROVIDERS), (false, false, false));
        assert_eq!(shown(CACHE_HEADERS), (true, true, false));
    }
}
