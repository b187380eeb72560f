//! Names of traits that mean something to Berth.

/// A provider with this trait offers its inventory to all trees with a member in one of its aggregates.
pub const SHARING: &str = "MISC_SHARES_VIA_AGGREGATE";

/// The roots of hosts that a group has exclusively carry this trait, for everybody to see.
pub const EXCLUSIVE: &str = "CUSTOM_VALET_EXCLUSIVE";

/// Nova gives this trait to hosts that must not get any new server.
pub const COMPUTE_DISABLED: &str = "COMPUTE_STATUS_DISABLED";

/// The roots of trees on which volumes of plans are placed have this trait.
pub const STORAGE: &str = "CUSTOM_STORAGE_BACKEND";
/// Traits of a storage backend that begin so name a type of volumes that it has.
pub const VOLUME_TYPE_PREFIX: &str = "CUSTOM_VOLUME_TYPE_";

/// Traits of a host that begin so name its rack.
pub const RACK_PREFIX: &str = "CUSTOM_RACK_";
/// Traits of a host that begin so name its cluster.
pub const CLUSTER_PREFIX: &str = "CUSTOM_CLUSTER_";
/// Traits of a host that begin so name one of its availability zones.
pub const ZONE_PREFIX: &str = "CUSTOM_AZ_";
