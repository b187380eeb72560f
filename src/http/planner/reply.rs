//! Answers that went well.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

use crate::model::Bug;

/// The header that says how good a plan is.
const QUALITY: HeaderName = HeaderName::from_static("berth-plan");

/// An answer. Made by a handler, written by [`Reply::render`].
#[derive(Clone, Debug)]
pub(super) struct Reply {
    status: StatusCode,
    json: Option<Vec<u8>>,
    allow: Option<String>,
    quality: Option<String>,
}

impl Reply {
    /// 200 with a view as JSON.
    pub(super) fn json(view: &impl Serialize) -> Self {
        // Views are plain data with text keys, which can always be written.
        let json = serde_json::to_vec(view)
            .unwrap_or_else(|error| Bug::raise(format!("a view cannot be written: {error}")));
        Self { status: StatusCode::OK, json: Some(json), allow: None, quality: None }
    }

    /// 201 with a view as JSON.
    pub(super) fn created(view: &impl Serialize) -> Self {
        Self { status: StatusCode::CREATED, ..Self::json(view) }
    }

    /// 204.
    pub(super) fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, json: None, allow: None, quality: None }
    }

    /// The same, saying which methods there are.
    pub(super) fn allow(self, methods: String) -> Self {
        Self { allow: Some(methods), ..self }
    }

    /// The same, saying how good a plan is: a JSON object.
    pub(super) fn quality(self, quality: Option<String>) -> Self {
        Self { quality, ..self }
    }

    /// The answer.
    pub(super) fn render(self) -> Response {
        let has_content = self.json.is_some();
        let mut response = Response::new(self.json.map_or_else(Body::empty, Body::from));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if has_content {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, value(&allow));
        }
        if let Some(quality) = self.quality {
            headers.insert(QUALITY, value(&quality));
        }
        response
    }
}

/// The value of a header. Ours can always be written.
fn value(text: &str) -> HeaderValue {
    HeaderValue::try_from(text)
        .unwrap_or_else(|error| Bug::raise(format!("{text:?} in a header: {error}")))
}
