//! The tower stack that every request passes, whichever API it is for.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder};
use tower_http::compression::predicate::{Predicate, SizeAbove};
use tower_http::compression::{CompressionLayer, CompressionLevel};
use tower_http::request_id::{
    MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer,
};
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use uuid::Uuid;

use crate::http::layers::around::around;
use crate::http::layers::audited::AuditLayer;
use crate::http::layers::cors::{self, Cors};
use crate::http::layers::proxy::Trusted;
use crate::http::layers::traced::TracedLayer;
use crate::http::layers::{access_log, paced, well_formed};
use crate::model::Bug;

/// Header of request ids in requests and responses.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// Headers whose values are never logged.
const SECRETS: [HeaderName; 3] = [
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-service-token"),
    header::AUTHORIZATION,
];

/// Minimum size of a response to compress, in bytes. Smaller ones fit into a few packets anyway.
const COMPRESS_FROM: u16 = 8192;

/// A boxed service of requests.
pub(in crate::http) type HttpService = BoxCloneSyncService<Request, Response, Infallible>;

/// Wraps the APIs in the stack. The first layer is the outermost.
pub(in crate::http) fn stack<S>(
    apis: S,
    trusted: Arc<Trusted>,
    cors: Option<Cors>,
    audit: Option<AuditLayer>,
) -> HttpService
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let compression = CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(SizeAbove::new(COMPRESS_FROM).and(is_json));
    let service = ServiceBuilder::new()
        .map_request(take_global_id)
        .layer(SetRequestIdLayer::new(REQUEST_ID, NewRequestId))
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        // Browsers must not interpret a response as a page.
        .layer(SetResponseHeaderLayer::overriding(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ))
        .layer(around(move |request: &mut Request| Ok(access_log::log(&trusted, request))))
        .layer(TracedLayer)
        .layer(SetSensitiveRequestHeadersLayer::new(SECRETS))
        .map_response(paced::pace)
        .layer(compression)
        .layer(around(well_formed::check))
        .option_layer(
            cors.map(Arc::new)
                .map(|cors| around(move |request: &mut Request| cors::share(&cors, request))),
        )
        .option_layer(audit)
        .service(apis);
    BoxCloneSyncService::new(service)
}

/// Generates request ids of the form `req-UUID`.
#[derive(Clone, Copy)]
struct NewRequestId;

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
fn take_global_id(mut request: Request) -> Request {
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

/// Marks a streaming response. It is not compressed, because the encoder would buffer it.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Streaming;

fn is_json(
    _status: axum::http::StatusCode,
    _version: axum::http::Version,
    headers: &axum::http::HeaderMap,
    extensions: &axum::http::Extensions,
) -> bool {
    if extensions.get::<Streaming>().is_some() {
        return false;
    }
    let is_one = |it: &HeaderValue| it == "application/json" || it == "application/x-ndjson";
    headers.get(header::CONTENT_TYPE).is_some_and(is_one)
}

/// Converts the body of a response to axum's type.
pub(in crate::http) fn boxed<B>(response: axum::http::Response<B>) -> Response
where
    B: axum::body::HttpBody<Data = axum::body::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    response.map(Body::new)
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
