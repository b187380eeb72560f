//! Views of `/-/v1`: the server writes them, and the client commands read them.

pub mod claim;
pub mod consumers;
pub mod events;
pub mod fit;
pub mod fragmentation;
pub mod moves;
pub mod options;
pub mod refused;
pub mod relocations;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The response of `GET /-/v1/explain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The number of resource providers.
    pub providers: usize,
    /// Number of hosts: trees with inventory of their own.
    pub hosts: usize,
    /// Whether all hosts were examined. If not, the time limit was reached, and the counts are too
    /// small.
    pub complete: bool,
    /// Number of hosts that fit.
    pub fitting: usize,
    /// Number of hosts for which the work limit of one host was reached.
    pub undecided: usize,
    /// The conditions in the order of the query, then those that combine several groups.
    pub conditions: Vec<Condition>,
    /// Contradictory conditions, if no host fits.
    pub conflict: Option<Conflict>,
    /// Hosts that fail one condition only.
    pub near_misses: NearMisses,
}

/// A condition and its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// The condition as the query states it.
    pub condition: String,
    /// The query parameter of the condition, or what it combines.
    pub kind: String,
    /// The suffix of its group; `None` if it applies to the whole request.
    pub group: Option<String>,
    /// Number of providers that meet it and, in a suffixed group, the earlier conditions of the
    /// group; `None` if it combines others.
    pub providers: Option<usize>,
    /// Number of hosts that remain after it and all earlier conditions.
    pub left: usize,
    /// Number of hosts that it rules out, regardless of other conditions.
    pub ruled_out: usize,
    /// Number of hosts that would fit without it.
    pub fitting_without: usize,
    /// The missing amount, if it requests one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
}

/// A missing amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// The resource class.
    pub resource_class: String,
    /// The requested amount.
    pub requested: i64,
    /// Number of hosts ruled out that have no inventory of the class.
    pub without_inventory: usize,
    /// The host ruled out with the largest amount available in one piece, if any has an inventory.
    pub closest: Option<Closest>,
}

/// A host with too little capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Closest {
    /// Its name.
    pub host: String,
    /// The largest amount that can be allocated in one piece.
    pub available: i64,
    /// The capacity of the provider.
    pub capacity: i64,
    /// The used amount.
    pub used: i64,
    /// The total of the inventory.
    pub total: i64,
    /// The reserved amount, which cannot be allocated.
    pub reserved: i64,
    /// The violated limit: `free`, `max_unit`, `min_unit` or `step_size`.
    pub limit: String,
    /// The value of `max_unit`, `min_unit` or `step_size`.
    pub limit_value: Option<i64>,
}

/// Contradictory conditions: no host meets all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conflict {
    /// The conditions.
    pub conditions: Vec<String>,
    /// Whether every smaller set leaves some host.
    pub smallest: bool,
}

/// Hosts that fail one condition only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearMisses {
    /// Number of such hosts.
    pub count: usize,
    /// Some of them.
    pub hosts: Vec<NearMiss>,
}

/// A host that fails one condition only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NearMiss {
    /// Its name.
    pub host: String,
    /// The condition.
    pub condition: String,
    /// The missing amount, if the condition requests one.
    pub missing: Option<i64>,
}
