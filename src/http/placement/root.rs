//! `/`: the supported versions. Needs no token.

use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use super::microversion::{INITIAL, LATEST};
use super::problem::Problem;
use crate::http::api::reply::Reply;
use crate::http::app::App;

/// `GET /`: the supported versions.
pub(super) async fn show(State(app): State<Arc<App>>) -> Result<Reply, Problem> {
    let versions = json!({
        "versions": [{
            "id": format!("v{INITIAL}"),
            "max_version": LATEST.to_string(),
            "min_version": INITIAL.to_string(),
            "status": "CURRENT",
            // A relative link to the same URL.
            "links": [{ "rel": "self", "href": "" }],
        }]
    });
    Ok(Reply::json(&versions).modified(app.now()))
}
