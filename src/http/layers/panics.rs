//! Handles panics: each ends one request only. The hook of [`crate::observe::telemetry`] has
//! already counted and logged it.

use std::any::Any;

use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;

/// Creates a layer that responds to a panic with a problem of the API.
pub(in crate::http) fn catch<P: IntoResponse + 'static>(
    problem: fn(String) -> P,
) -> CatchPanicLayer<impl Fn(Box<dyn Any + Send>) -> Response + Clone + use<P>> {
    CatchPanicLayer::custom(move |panic: Box<dyn Any + Send>| {
        problem(cause(panic.as_ref())).into_response()
    })
}

fn cause(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without words"))
}
