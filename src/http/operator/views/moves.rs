//! The response of `GET /-/v1/moves`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How to make room for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moves {
    /// The query, or the name of the flavor.
    pub request: String,
    /// Whether it is the name of a flavor.
    pub is_flavor: bool,
    /// A host where the request already fits; nothing has to be done then.
    pub fits_on: Option<Host>,
    /// The host where the request fits after the steps; `None` if no solution was found.
    pub target: Option<Host>,
    /// The consumers to move, in order.
    pub steps: Vec<Step>,
    /// With a target: whether it is proven that fewer consumers of one host do not suffice, with
    /// victims up to the priority of the last step. Without: whether it is proven that no 8
    /// consumers of one host suffice.
    pub proven: bool,
    /// Extent of the search.
    pub examined: Examined,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MoveHost")]
pub struct Host {
    /// Its name.
    pub host: String,
    /// The UUID of the root of its tree.
    pub uuid: String,
}

/// A consumer to move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MoveStep")]
pub struct Step {
    /// The consumer.
    pub consumer: String,
    /// Its project.
    pub project_id: String,
    /// Its type, if it was ever set.
    pub consumer_type: Option<String>,
    /// Its allocations on the old host, by class.
    pub leaves: BTreeMap<String, i64>,
    /// The new host; `None` if all its allocations are deleted.
    pub to: Option<Host>,
    /// The microversion of the body.
    pub microversion: String,
    /// A body of `POST /allocations` for the move. It contains the consumer's generation, so it is
    /// refused if the consumer has changed.
    pub body: Value,
}

/// Extent of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MovesExamined")]
pub struct Examined {
    /// Number of hosts whose consumers were examined.
    pub hosts: usize,
    /// Number of hosts where the request would fit if they were empty.
    pub of_hosts: usize,
    /// Number of consumers.
    pub consumers: usize,
}
