//! `/-/v1/options`: the options of the running process.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;

use super::context::Problem;
use super::requests::without_parameters;
use super::views::options::OptionsInForce;
use crate::http::api::reply::Reply;
use crate::http::app::App;

/// `GET /-/v1/options`: the options of this replica, without secrets.
pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Result<Reply, Problem> {
    without_parameters(&uri)?;
    Ok(Reply::json(&OptionsInForce { options: app.current_options.all() }))
}
