//! `/`: the supported versions. Needs no token.

use std::sync::Arc;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::microversion::{INITIAL, LATEST};
use super::problem::Problem;
use super::resource_providers::Link;
use crate::http::api::reply::Reply;
use crate::http::app::App;

/// `GET /`: the supported versions.
pub(super) async fn show(State(app): State<Arc<App>>) -> Result<Reply, Problem> {
    let version = Range {
        id: format!("v{INITIAL}"),
        max_version: LATEST.to_string(),
        min_version: INITIAL.to_string(),
        status: "CURRENT",
        // A relative link to the same URL.
        links: [Link { rel: "self", href: String::new() }],
    };
    Ok(Reply::json(&Document { versions: [version] }).modified(app.now()))
}

/// The version document.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Versions")]
pub(super) struct Document {
    versions: [Range; 1],
}

/// The range of microversions.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Version")]
struct Range {
    id: String,
    max_version: String,
    min_version: String,
    status: &'static str,
    links: [Link; 1],
}
