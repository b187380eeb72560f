//! The response of `GET /-/v1/fragmentation`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fit::Number;

/// Free capacity that is unusable for some requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fragmentation {
    /// The result of each request, in the order of the query.
    pub requests: Vec<RequestFragments>,
    /// Capacity that is unusable for every request.
    pub for_all: CommonFragments,
}

/// Capacity that is unusable for every request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommonFragments {
    /// Whether all hosts were examined for each request. If not, the others are omitted.
    pub complete: bool,
    /// The classes of the requests. Each host counts with the request that leaves the smallest
    /// amount of the class. Capacity shared between hosts is not included.
    pub classes: Vec<Fragment>,
}

/// Capacity that is unusable for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestFragments {
    /// The query, or the name of the flavor.
    pub request: String,
    /// Whether it is the name of a flavor.
    pub is_flavor: bool,
    /// Whether all hosts were examined.
    pub complete: bool,
    /// Number of times that the request fits.
    pub fits: Number,
    /// Number of times that the request would fit if all free capacity were on one provider.
    pub in_one_piece: u64,
    /// The classes of the request.
    pub classes: Vec<ClassFragment>,
    /// Number of examined hosts with unusable capacity.
    pub host_count: usize,
    /// The hosts with the largest unusable capacity.
    pub hosts: Vec<HostFragments>,
}

/// Unusable capacity of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassFragment {
    /// The amount that one request takes.
    pub requested: i64,
    /// The free amount in the whole cloud.
    #[serde(flatten)]
    pub fragment: Fragment,
}

/// Free capacity of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fragment {
    /// The resource class.
    pub resource_class: String,
    /// The free amount.
    pub free: u64,
    /// The amount that remains once as many requests as possible are placed.
    pub unusable: u64,
}

/// Unusable capacity of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostFragments {
    /// Its name.
    pub host: String,
    /// The UUID of the root of its tree.
    pub uuid: String,
    /// Number of times that the request fits.
    pub fits: Number,
    /// The classes.
    pub classes: Vec<Fragment>,
    /// The classes that have too little for another request. Empty: something else prevents it,
    /// such as a trait, or capacity that is split between providers.
    pub short_of: Vec<String>,
}
