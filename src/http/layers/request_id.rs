//! The id of a request, and that of the client's own request.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use tower_http::request_id::{MakeRequestId, RequestId};
use uuid::Uuid;

use crate::model::Bug;

/// Header of request ids in requests and responses.
pub(in crate::http) const REQUEST_ID: HeaderName =
    HeaderName::from_static("x-openstack-request-id");

/// Generates request ids of the form `req-UUID`.
#[derive(Clone, Copy)]
pub(super) struct NewRequestId;

impl MakeRequestId for NewRequestId {
    fn make_request_id<B>(&mut self, _request: &axum::http::Request<B>) -> Option<RequestId> {
        let id = format!("req-{}", Uuid::new_v4());
        let value = HeaderValue::try_from(&id)
            .unwrap_or_else(|error| Bug::raise(format!("{id:?} as a header: {error}")));
        Some(RequestId::new(value))
    }
}

/// The id of the client's own request, as sent by the client.
#[derive(Clone, Debug)]
pub(in crate::http) struct GlobalRequestId(pub(in crate::http) String);

/// In a request, the header has the client's id, not that of this request.
pub(super) fn take_global_id(mut request: Request) -> Request {
    if let Some(id) = request.headers_mut().remove(REQUEST_ID)
        && let Some(id) = id.to_str().ok().filter(|id| is_request_id(id))
    {
        let id = GlobalRequestId(id.to_owned());
        request.extensions_mut().insert(id);
    }
    request
}

/// Returns the id of a request.
pub(in crate::http) fn request_id(extensions: &axum::http::Extensions) -> &str {
    let id = extensions.get::<RequestId>().and_then(|id| id.header_value().to_str().ok());
    id.unwrap_or_else(|| Bug::raise("a request has no id".to_owned()))
}

/// Returns whether a text has the form of OpenStack's request ids: `req-` and a UUID.
fn is_request_id(text: &str) -> bool {
    let Some(id) = text.strip_prefix("req-") else { return false };
    let parts: Vec<&str> = id.split('-').collect();
    let word = |part: &&str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(word)
}

#[cfg(test)]
mod tests {
    use super::is_request_id;

    #[test]
    fn only_ids_of_openstack_are_taken_over() {
        assert!(is_request_id("req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901"));
        assert!(is_request_id("req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3dezzz"));
        for other in [
            "",
            "req-",
            "5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901",
            "req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de9011",
            "req-5c0bfa84-6b1c-4bbd-9d2f",
            "req-5c0bfa84 6b1c-4bbd-9d2f-7e8a4c3de901",
        ] {
            assert!(!is_request_id(other), "{other}");
        }
    }
}
