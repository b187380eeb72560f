//! Services of requests, and their responses.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use tower::util::BoxCloneSyncService;

/// A boxed service of requests.
pub(in crate::http) type HttpService = BoxCloneSyncService<Request, Response, Infallible>;

/// Marks a response that lasts as long as its client wants. It is not compressed, because the encoder would buffer
/// it, and never slow.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Streaming;

/// Converts the body of a response to axum's type.
pub(in crate::http) fn boxed<B>(response: axum::http::Response<B>) -> Response
where
    B: axum::body::HttpBody<Data = axum::body::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    response.map(Body::new)
}
