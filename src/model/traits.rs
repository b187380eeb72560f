//! Names of traits with a meaning for Berth.

use super::Level;

/// A provider with this trait offers its inventory to all trees with a member in one of its aggregates.
pub const SHARING: &str = "MISC_SHARES_VIA_AGGREGATE";

/// The roots of hosts that a group has exclusively carry this trait, visible to all clients.
pub const EXCLUSIVE: &str = "CUSTOM_VALET_EXCLUSIVE";

/// Nova sets this trait on hosts that must not get any new server.
pub const COMPUTE_DISABLED: &str = "COMPUTE_STATUS_DISABLED";

/// The roots of trees on which volumes of plans are placed have this trait.
pub const STORAGE: &str = "CUSTOM_STORAGE_BACKEND";
/// Prefix of traits of a storage backend that name its volume types.
pub const VOLUME_TYPE_PREFIX: &str = "CUSTOM_VOLUME_TYPE_";

/// A storage backend with one of these traits serves servers of its own host, rack or cluster only.
pub const STORAGE_REACH: [(&str, Level); 3] = [
    ("CUSTOM_STORAGE_REACH_HOST", Level::Host),
    ("CUSTOM_STORAGE_REACH_RACK", Level::Rack),
    ("CUSTOM_STORAGE_REACH_CLUSTER", Level::Cluster),
];

/// Prefix of the trait of a host that names its rack.
pub const RACK_PREFIX: &str = "CUSTOM_RACK_";
/// Prefix of the trait of a host that names its cluster.
pub const CLUSTER_PREFIX: &str = "CUSTOM_CLUSTER_";
/// Prefix of the traits of a host that name its availability zones.
pub const ZONE_PREFIX: &str = "CUSTOM_AZ_";
