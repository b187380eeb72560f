//! The answer of `GET /-/v1/fit`.

use serde::{Deserialize, Serialize};

/// How many more of some requests fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fits {
    /// The number of resource providers.
    pub providers: usize,
    /// The hosts that were left out, as the query names them.
    pub left_out: Vec<LeftOut>,
    /// Whether what the drained hosts hold fits elsewhere, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drained: Option<Drained>,
    /// What fits of each request, in the order of the query. Each number is that of the request by itself.
    pub requests: Vec<RequestFit>,
}

/// Whether what drained hosts hold fits on others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// The consumers with something on these hosts, apart from those of plans.
    pub consumers: usize,
    /// How many of them fit on other hosts, all at once.
    pub placed: usize,
    /// Some of those for which no place was found beside the others.
    pub without_place: Vec<String>,
    /// Whether all were looked at, and each search for a place came to its end. If not, that would have taken
    /// too long.
    pub complete: bool,
}

/// Hosts that were left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The parameter: `drain` or `without`.
    pub parameter: String,
    /// Its value.
    pub value: String,
    /// The hosts that it stands for.
    pub hosts: usize,
}

/// What fits of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFit {
    /// The query, or the name of the flavor.
    pub request: String,
    /// Whether it is the name of a flavor.
    pub is_flavor: bool,
    /// Whether all hosts were examined. If not, that would have taken too long, and more may fit.
    pub complete: bool,
    /// How often it fits in total.
    pub fits: Number,
    /// The hosts where it fits at least once.
    pub fitting_hosts: usize,
    /// The hosts where it fits most often, best first.
    pub hosts: Vec<HostFit>,
    /// The groups of hosts, if the query asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
}

/// A number that may not be known exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Number {
    /// It is not smaller: a way was found.
    pub at_least: u64,
    /// It is not greater; `None` if no bound is known.
    pub at_most: Option<u64>,
    /// Whether both are equal.
    pub exact: bool,
}

/// How often a request fits on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFit {
    /// Its name.
    pub host: String,
    /// The UUID of the root of its tree.
    pub uuid: String,
    /// How often the request fits on it, if nothing is taken of what it shares with others.
    pub fits: Number,
}

/// Groups of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// The number of groups.
    pub count: usize,
    /// The groups in which the request fits most often, best first.
    pub named: Vec<GroupFit>,
}

/// How often a request fits on a group of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFit {
    /// The trait or the UUID of the aggregate; `None` for the hosts that have none.
    pub group: Option<String>,
    /// The hosts in it.
    pub hosts: usize,
    /// The hosts in it where the request fits at least once.
    pub fitting_hosts: usize,
    /// How often the request fits.
    pub fits: Number,
}
