//! Servers that violate rules or are not on their planned hosts.

use serde_json::{Map, Value, json};

use super::extract::{Query, Tenant};
use super::problem::Problem;
use crate::http::api::reply::Reply;
use crate::planner::report::Severity;
use crate::planning::{Planning, run};

/// `GET /v1/resources`: the servers that violate rules or are not on their planned hosts.
pub(super) async fn list(
    tenant: Tenant,
    query: Query,
    planning: Planning,
) -> Result<Reply, Problem> {
    query.no_dry_run()?;
    let report = planning.report(tenant.scope(), tenant.requester()).await?;
    let turn = planning.read_turn(tenant.requester()).await?;
    let written = run(turn, move || {
        let view = |(id, severity, message): (&str, Severity, String)| {
            let status = match severity {
                Severity::Broken => "error",
                Severity::Elsewhere => "warning",
            };
            let view = json!({"type": "OS::Nova::Server", "status": status, "message": message});
            (id.to_owned(), view)
        };
        let resources: Map<String, Value> = report.servers().map(view).collect();
        Ok(json!({"resources": resources}))
    });
    Ok(Reply::json(&written.await?))
}
