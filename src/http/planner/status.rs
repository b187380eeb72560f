//! What state all is in: `ostro` is what plans, `placement` what the plans are made in.

use serde_json::{Value, json};

use super::call::Call;
use super::problem::Problem;
use super::reply::Reply;
use crate::http::app::App;
use crate::store;

/// `HEAD /v1/status`
pub(super) async fn check(call: Call) -> Result<Reply, Problem> {
    status(&call.app).await.map(|_| Reply::no_content())
}

/// `GET /v1/status`
pub(super) async fn show(call: Call) -> Result<Reply, Problem> {
    status(&call.app).await.map(|status| Reply::json(&status))
}

async fn status(app: &App) -> Result<Value, Problem> {
    let kept = app.store.planner_counts().await.map_err(|error| down("ostro", &error))?;
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
