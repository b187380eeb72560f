//! `/-/v1/members`: the replicas that run.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use schemars::JsonSchema;
use serde::Serialize;

use super::context::Problem;
use super::requests::without_parameters;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::store::replicas::Replica;

/// The response of `GET /-/v1/members`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Members {
    members: Vec<Replica>,
}

/// `GET /-/v1/members`: the replicas that have reported within a day, as each has last reported.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Reply, Problem> {
    without_parameters(&uri)?;
    Ok(Reply::json(&Members { members: app.store.replicas().await? }))
}
