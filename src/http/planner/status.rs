//! What state all is in: `ostro` is what plans, `placement` what the plans are made in.

use serde_json::{Value, json};

use super::call::Call;
use super::problem::Problem;
use super::reply::Reply;
use crate::store;

/// `HEAD /v1/status`
pub(super) async fn check(call: Call) -> Result<Reply, Problem> {
    status(&call).await.map(|_| Reply::no_content())
}

/// `GET /v1/status`
pub(super) async fn show(call: Call) -> Result<Reply, Problem> {
    status(&call).await.map(|status| Reply::json(&status))
}

/// Of plans and placements, those are counted that the caller sees.
async fn status(call: &Call) -> Result<Value, Problem> {
    let app = &call.app;
    let kept = app.store.planner_counts(call.only_project()).await;
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
        .explained(format!("The subsystem {subsystem} does not answer."))
}
