//! The tower stack that every request passes, whichever API it is for.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder};
use tower_http::compression::predicate::{Predicate, SizeAbove};
use tower_http::compression::{CompressionLayer, CompressionLevel};
use tower_http::request_id::{PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::http::app::Options;
use crate::http::connection::WriteError;
use crate::http::layers::around::around;
use crate::http::layers::cors;
use crate::http::layers::proxy::Trusted;
use crate::http::layers::request_id::{NewRequestId, REQUEST_ID, take_global_id};
use crate::http::layers::service::{HttpService, Streaming};
use crate::http::layers::traced::TracedLayer;
use crate::http::layers::{access_log, paced, well_formed};

/// Headers whose values are never logged.
const SECRETS: [HeaderName; 4] = [
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-service-token"),
    header::AUTHORIZATION,
    header::COOKIE,
];

/// Minimum size of a response to compress, in bytes. Smaller ones fit into a few packets anyway.
const COMPRESS_FROM: u16 = 8192;

/// Wraps the APIs in the stack. The first layer is the outermost.
pub(in crate::http) fn stack<S>(
    apis: S,
    write_error: WriteError,
    trusted: Arc<Trusted>,
    options: &Options,
) -> HttpService
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let compression = CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(SizeAbove::new(COMPRESS_FROM).and(is_text));
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
        .layer(TracedLayer { slow_after: options.slow_request })
        .layer(SetSensitiveRequestHeadersLayer::new(SECRETS))
        .map_response(paced::pace)
        .layer(compression)
        .layer(around(move |request: &mut Request| well_formed::check(request, write_error)))
        .option_layer(
            options
                .cors
                .clone()
                .map(Arc::new)
                .map(|cors| around(move |request: &mut Request| cors::share(&cors, request))),
        )
        .service(apis);
    BoxCloneSyncService::new(service)
}

fn is_text(
    _status: axum::http::StatusCode,
    _version: axum::http::Version,
    headers: &axum::http::HeaderMap,
    extensions: &axum::http::Extensions,
) -> bool {
    if extensions.get::<Streaming>().is_some() {
        return false;
    }
    let types = ["application/json", "application/x-ndjson", "text/html; charset=utf-8"];
    headers.get(header::CONTENT_TYPE).is_some_and(|it| types.iter().any(|name| it == name))
}
