//! The responses of `POST /-/v1/drain` and `POST /-/v1/rebalance`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The moves that empty hosts, or make room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Relocations {
    /// Number of servers that move.
    pub moves: usize,
    /// Whether it is proven that no fewer moves suffice.
    pub proven: bool,
    /// The requests that carry the moves out, in order.
    pub steps: Vec<Step>,
    /// The number of additional servers for which each host then has room, by the name of the host.
    pub room: BTreeMap<String, usize>,
    /// Extent of the search.
    pub examined: Examined,
    /// Number of steps that were carried out; `None` for a dry run.
    pub carried_out: Option<usize>,
    /// The reason why the next step was not carried out.
    pub stopped_by: Option<String>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RelocationStep")]
pub struct Step {
    /// The API: `placement` or `planner`.
    pub api: String,
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The microversion, on the Placement API.
    pub microversion: Option<String>,
    /// The body.
    pub body: Value,
    /// The servers that it moves.
    pub moves: Vec<Move>,
}

/// A server that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RelocationMove")]
pub struct Move {
    /// The consumer of its allocations.
    pub consumer: Option<String>,
    /// Its project.
    pub project_id: String,
    /// The plan of the server, and the orchestration id of the server in it.
    pub plan: Option<String>,
    /// See `plan`.
    pub server: Option<String>,
    /// The name of its host.
    pub from: String,
    /// The name of its new host.
    pub to: String,
    /// Its new allocations: amounts by provider and class.
    pub allocations: BTreeMap<String, BTreeMap<String, i64>>,
}

/// Extent of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RelocationsExamined")]
pub struct Examined {
    /// Number of plans.
    pub plans: usize,
    /// Number of consumers outside of plans.
    pub consumers: usize,
}
