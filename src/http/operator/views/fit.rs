//! The response of `GET /-/v1/fit`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Numbers of times that requests fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fits {
    /// The number of resource providers.
    pub providers: usize,
    /// The excluded hosts, as named in the query.
    pub left_out: Vec<LeftOut>,
    /// The result of each request, in the order of the query. Each is independent of the others.
    pub requests: Vec<RequestFit>,
}

/// Excluded hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The parameter: `drain` or `without`.
    pub parameter: String,
    /// Its value.
    pub value: String,
    /// Number of excluded hosts.
    pub hosts: usize,
}

/// Number of times that a request fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestFit {
    /// The query, or the name of the flavor.
    pub request: String,
    /// Whether it is the name of a flavor.
    pub is_flavor: bool,
    /// Whether all hosts were examined. If not, the time limit was reached, and more may fit.
    pub complete: bool,
    /// Number of times that it fits in total.
    pub fits: Number,
    /// Number of hosts where it fits at least once.
    pub fitting_hosts: usize,
    /// The hosts where it fits most often, best first.
    pub hosts: Vec<HostFit>,
    /// Groups of hosts, if the query requests them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
}

/// A number that may be known only approximately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ApproximateNumber")]
pub struct Number {
    /// Lower bound.
    pub at_least: u64,
    /// Upper bound; `None` if unknown.
    pub at_most: Option<u64>,
    /// Whether both bounds are equal.
    pub exact: bool,
}

/// Number of times that a request fits on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostFit {
    /// Its name.
    pub host: String,
    /// The UUID of the root of its tree.
    pub uuid: String,
    /// Number of times that the request fits, if no shared capacity is used elsewhere.
    pub fits: Number,
}

/// Groups of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HostGroups")]
pub struct Groups {
    /// The number of groups.
    pub count: usize,
    /// The groups in which the request fits most often, best first.
    pub named: Vec<GroupFit>,
}

/// Number of times that a request fits on a group of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupFit {
    /// The trait or the UUID of the aggregate; `None` for hosts that have none.
    pub group: Option<String>,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of hosts where the request fits at least once.
    pub fitting_hosts: usize,
    /// Number of times that the request fits.
    pub fits: Number,
}
