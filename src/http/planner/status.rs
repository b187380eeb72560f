//! Status of the subsystems: `ostro` is the planner, `placement` the cloud it plans for.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};

use super::extract::Tenant;
use super::problem::Problem;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::store;

/// `HEAD /v1/status`
pub(super) async fn check(State(app): State<Arc<App>>, tenant: Tenant) -> Result<Reply, Problem> {
    status(&app, &tenant).await.map(|_| Reply::no_content())
}

/// `GET /v1/status`
pub(super) async fn show(State(app): State<Arc<App>>, tenant: Tenant) -> Result<Reply, Problem> {
    status(&app, &tenant).await.map(|status| Reply::json(&status))
}

/// Counts the plans and placements that are visible to the caller.
async fn status(app: &App, tenant: &Tenant) -> Result<Value, Problem> {
    let kept = app.store.planner_counts(tenant.only_project()).await;
    let kept = kept.map_err(|error| down("ostro", &error))?;
    let world = app.store.world().await.map_err(|error| down("placement", &error))?;
    let well = |resources: Value| json!({"status": {"type": "ok", "message": "ping"}, "resources": resources});
    Ok(json!({"status": {
        "ostro": well(json!({
            "plans": kept.plans,
            "placements": kept.placements,
            "expired_holds": kept.expired_holds,
        })),
        "placement": well(json!({"resource_providers": world.len()})),
    }}))
}

fn down(subsystem: &str, error: &store::Error) -> Problem {
    Problem::internal(format!("{subsystem}: {error}"))
        .detail(format!("The subsystem {subsystem} does not answer."))
}
