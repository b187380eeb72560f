//! The answer of `GET /-/v1/moves`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How to make room for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moves {
    /// The query, or the name of the flavor.
    pub request: String,
    /// Whether it is the name of a flavor.
    pub is_flavor: bool,
    /// A host where the request fits already; there is nothing to do then.
    pub fits_on: Option<Host>,
    /// The host where the request fits after the steps; `None` if no way was found.
    pub target: Option<Host>,
    /// Who leaves it, in the order in which it is to be done.
    pub steps: Vec<Step>,
    /// With a target: whether it is proven that no fewer consumers of one host suffice, of victims up to the
    /// priority of the last step. Without: whether it is proven that no 8 consumers of one host suffice.
    pub proven: bool,
    /// What was looked at.
    pub examined: Examined,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub host: String,
    /// The UUID of the root of its tree.
    pub uuid: String,
}

/// A consumer that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The consumer.
    pub consumer: String,
    /// Its project.
    pub project_id: String,
    /// Its type, if it was ever said.
    pub consumer_type: Option<String>,
    /// What it holds on the host that it leaves, by class.
    pub leaves: BTreeMap<String, i64>,
    /// The host to which it moves; `None` if it gives up all that it holds.
    pub to: Option<Host>,
    /// The microversion at which the body is understood.
    pub microversion: String,
    /// A body of `POST /allocations` that does it. It has the consumer's generation, so it is refused if the
    /// consumer has changed.
    pub body: Value,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examined {
    /// The hosts whose consumers were looked at.
    pub hosts: usize,
    /// The hosts where the request would fit if they were empty.
    pub of_hosts: usize,
    /// The consumers.
    pub consumers: usize,
}
