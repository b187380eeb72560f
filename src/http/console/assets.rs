//! Files that pages load.

use axum::http::header::CACHE_CONTROL;

use super::context::Problem;
use crate::http::api::reply::Reply;

/// `GET /ui/style.css`
pub(super) async fn style() -> Result<Reply, Problem> {
    Ok(file("text/css; charset=utf-8", include_str!("assets/style.css")))
}

/// `GET /ui/live.js`
pub(super) async fn live() -> Result<Reply, Problem> {
    Ok(file("text/javascript; charset=utf-8", include_str!("assets/live.js")))
}

/// `GET /ui/icon.svg`
pub(super) async fn icon() -> Result<Reply, Problem> {
    Ok(file("image/svg+xml", include_str!("assets/icon.svg")))
}

fn file(media_type: &'static str, text: &'static str) -> Reply {
    Reply::body(text.into()).of_type(media_type).header(CACHE_CONTROL, "max-age=300")
}
