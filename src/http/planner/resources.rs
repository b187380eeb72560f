//! Servers that violate rules or are not on their planned hosts.

use schemars::JsonSchema;
use serde::Serialize;

use super::extract::{Query, Tenant};
use super::problem::Problem;
use crate::http::api::json::Ordered;
use crate::http::api::reply::Reply;
use crate::planner::report::Severity;
use crate::planning::{Planning, run};

/// Servers that violate rules or are not on their planned hosts, by the ids of the orchestrator.
#[derive(JsonSchema, Serialize)]
pub(super) struct Resources {
    resources: Ordered<Resource>,
}

/// A server that violates a rule or is not on its planned host.
#[derive(JsonSchema, Serialize)]
struct Resource {
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    message: String,
}

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
            (id.to_owned(), Resource { kind: "OS::Nova::Server", status, message })
        };
        Ok(Resources { resources: Ordered(report.servers().map(view).collect()) })
    });
    Ok(Reply::json(&written.await?))
}
