//! Answers that went well.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

/// An answer. Made by a handler, written by [`Reply::render`].
#[derive(Clone, Debug)]
pub(super) struct Reply {
    status: StatusCode,
    json: Option<Vec<u8>>,
    allow: Option<String>,
}

impl Reply {
    /// 200 with a view as JSON.
    pub(super) fn json(view: &impl Serialize) -> Self {
        // Views are plain data with text keys, which can always be written.
        let json = Some(serde_json::to_vec(view).unwrap_or_default());
        Self { status: StatusCode::OK, json, allow: None }
    }

    /// 201 with a view as JSON.
    pub(super) fn created(view: &impl Serialize) -> Self {
        Self { status: StatusCode::CREATED, ..Self::json(view) }
    }

    /// 204.
    pub(super) fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, json: None, allow: None }
    }

    /// The same, saying which methods there are.
    pub(super) fn allow(self, methods: String) -> Self {
        Self { allow: Some(methods), ..self }
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
        if let Some(Ok(allow)) = self.allow.map(HeaderValue::try_from) {
            headers.insert(header::ALLOW, allow);
        }
        response
    }
}
