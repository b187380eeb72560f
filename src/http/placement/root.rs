//! `/`: which versions there are. Needs no token.

use crate::http::app::App;
use axum::extract::State;
use serde_json::json;
use std::sync::Arc;

use super::microversion::{INITIAL, LATEST};
use super::problem::Problem;
use crate::http::api::reply::Reply;

/// `GET /`
pub(super) async fn show(State(app): State<Arc<App>>) -> Result<Reply, Problem> {
    let versions = json!({
        "versions": [{
            "id": format!("v{INITIAL}"),
            "max_version": LATEST.to_string(),
            "min_version": INITIAL.to_string(),
            "status": "CURRENT",
            // This very place, wherever the client found it.
            "links": [{ "rel": "self", "href": "" }],
        }]
    });
    Ok(Reply::json(&versions).modified(app.now()))
}
