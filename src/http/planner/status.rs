//! Status of the subsystems: `ostro` is the planner, `placement` the cloud it plans for.

use std::sync::Arc;

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

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

/// Status of the subsystems.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "SubsystemStatuses")]
pub(super) struct Statuses {
    status: Subsystems,
}

#[derive(JsonSchema, Serialize)]
struct Subsystems {
    ostro: Subsystem<PlannerResources>,
    placement: Subsystem<CloudResources>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "SubsystemWith{R}")]
struct Subsystem<R> {
    status: SubsystemState,
    resources: R,
}

#[derive(JsonSchema, Serialize)]
struct SubsystemState {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'static str,
}

#[derive(JsonSchema, Serialize)]
struct PlannerResources {
    plans: i64,
    placements: i64,
    expired_holds: i64,
}

#[derive(JsonSchema, Serialize)]
struct CloudResources {
    resource_providers: usize,
}

impl<R> Subsystem<R> {
    fn well(resources: R) -> Self {
        Self { status: SubsystemState { kind: "ok", message: "ping" }, resources }
    }
}

/// Counts the plans and placements that are visible to the caller.
async fn status(app: &App, tenant: &Tenant) -> Result<Statuses, Problem> {
    let kept = app.store.planner_counts(tenant.only_project()).await;
    let kept = kept.map_err(|error| down("ostro", &error))?;
    let world = app.store.world().await.map_err(|error| down("placement", &error))?;
    let ostro = PlannerResources {
        plans: kept.plans,
        placements: kept.placements,
        expired_holds: kept.expired_holds,
    };
    let cloud = CloudResources { resource_providers: world.len() };
    let status = Subsystems { ostro: Subsystem::well(ostro), placement: Subsystem::well(cloud) };
    Ok(Statuses { status })
}

fn down(subsystem: &str, error: &store::Error) -> Problem {
    Problem::internal(format!("{subsystem}: {error}"))
        .detail(format!("The subsystem {subsystem} does not answer."))
}
