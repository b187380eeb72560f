//! The answers of `/-/v1` as data: the server writes them, and the commands that are its clients read them.

pub mod claim;
pub mod consumers;
pub mod events;
pub mod fit;
pub mod fragmentation;
pub mod moves;
pub mod refused;

use serde::{Deserialize, Serialize};

/// The answer of `GET /-/v1/explain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The number of resource providers.
    pub providers: usize,
    /// The number of hosts: trees with inventory of their own.
    pub hosts: usize,
    /// Whether all hosts were examined. If not, that would have taken too long, and the counts are too small.
    pub complete: bool,
    /// The hosts that fit.
    pub fitting: usize,
    /// The hosts for which this could not be decided within the work for one host.
    pub undecided: usize,
    /// The conditions of the query, in its order, and then what is asked of several groups at once.
    pub conditions: Vec<Condition>,
    /// If no host fits: conditions that contradict each other.
    pub conflict: Option<Conflict>,
    /// Hosts that lack one thing only.
    pub near_misses: NearMisses,
}

/// A condition, and what it leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The condition as the query says it.
    pub condition: String,
    /// The parameter of the query that it comes from, or what it combines.
    pub kind: String,
    /// The suffix of its group; `None` if it concerns the whole request.
    pub group: Option<String>,
    /// The providers that meet it and, in a suffixed group, the conditions of the group before it; `None` if
    /// it combines others.
    pub providers: Option<usize>,
    /// The hosts that neither it nor any condition before it rules out.
    pub left: usize,
    /// The hosts that it rules out, whatever the others do.
    pub ruled_out: usize,
    /// The hosts that would fit without it.
    pub fitting_without: usize,
    /// What is missing of an amount, if it asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<Amount>,
}

/// What is missing of an amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The resource class.
    pub resource_class: String,
    /// The amount that is asked for.
    pub requested: i64,
    /// The hosts among those ruled out that have no inventory of the class.
    pub without_inventory: usize,
    /// The host among those ruled out that has most available in one piece, if any has an inventory.
    pub closest: Option<Closest>,
}

/// A host that has too little.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closest {
    /// Its name.
    pub host: String,
    /// The largest amount that can be allocated in one piece.
    pub available: i64,
    /// The capacity of the provider.
    pub capacity: i64,
    /// The amount of it that is in use.
    pub used: i64,
    /// The amount that the provider has, with what is reserved.
    pub total: i64,
    /// The reserved amount, which cannot be allocated.
    pub reserved: i64,
    /// What the requested amount violates: `free`, `max_unit`, `min_unit` or `step_size`.
    pub limit: String,
    /// The value of `max_unit`, `min_unit` or `step_size`.
    pub limit_value: Option<i64>,
}

/// Conditions that contradict each other: no host meets all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The conditions.
    pub conditions: Vec<String>,
    /// Whether no smaller set rules out all hosts.
    pub smallest: bool,
}

/// Hosts that lack one thing only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMisses {
    /// How many there are.
    pub count: usize,
    /// Some of them.
    pub hosts: Vec<NearMiss>,
}

/// A host that lacks one thing only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMiss {
    /// Its name.
    pub host: String,
    /// The condition that rules it out.
    pub condition: String,
    /// If the condition asks for an amount: how much more is needed.
    pub missing: Option<i64>,
}
