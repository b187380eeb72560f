//! The answer of `GET /-/v1/fragmentation`.

use serde::{Deserialize, Serialize};

use super::fit::Number;

/// What is free, but of no use for some requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragmentation {
    /// For each request, in the order of the query.
    pub requests: Vec<RequestFragments>,
    /// What is of no use for any of the requests.
    pub for_all: CommonFragments,
}

/// What is of no use for any of the requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonFragments {
    /// Whether all hosts were examined for each of the requests. If not, the others are left out.
    pub complete: bool,
    /// By class that any of the requests asks for: on each host, the request counts that leaves least of the
    /// class. What is shared between hosts is not in it.
    pub classes: Vec<Fragment>,
}

/// What is of no use for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFragments {
    /// The query, or the name of the flavor.
    pub request: String,
    /// Whether it is the name of a flavor.
    pub is_flavor: bool,
    /// Whether all hosts were examined.
    pub complete: bool,
    /// How often it fits.
    pub fits: Number,
    /// How often it would fit if all that is free were at one provider.
    pub in_one_piece: u64,
    /// By class that it asks for.
    pub classes: Vec<ClassFragment>,
    /// The number of hosts with something of no use, of those that were examined.
    pub host_count: usize,
    /// Those with most of it.
    pub hosts: Vec<HostFragments>,
}

/// What is of no use of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassFragment {
    /// What one request takes.
    pub requested: i64,
    /// What is free in the whole cloud.
    #[serde(flatten)]
    pub fragment: Fragment,
}

/// What is free of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragment {
    /// The resource class.
    pub resource_class: String,
    /// The free amount.
    pub free: u64,
    /// What of it is left when as many requests as fit are there.
    pub unusable: u64,
}

/// What is of no use on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFragments {
    /// Its name.
    pub host: String,
    /// The UUID of the root of its tree.
    pub uuid: String,
    /// How often the request fits.
    pub fits: Number,
    /// By class.
    pub classes: Vec<Fragment>,
    /// The classes of which too little is left for one more. Empty: something else is in the way, such as a
    /// trait, or the pieces at several providers.
    pub short_of: Vec<String>,
}
