//! Panics: each ends one request and nothing else. It is counted, and its words go to the log.

use std::any::Any;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;

use super::app::App;

/// A layer that answers a panic with a problem of the API.
pub(super) fn catch<P: IntoResponse + 'static>(
    app: &Arc<App>,
    problem: fn(String) -> P,
) -> CatchPanicLayer<impl Fn(Box<dyn Any + Send>) -> Response + Clone + use<P>> {
    let app = Arc::clone(app);
    CatchPanicLayer::custom(move |panic: Box<dyn Any + Send>| {
        app.count_panic();
        problem(cause(panic.as_ref())).into_response()
    })
}

fn cause(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("without words"))
}
