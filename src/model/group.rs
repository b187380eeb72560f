//! Groups of servers: what a group demands of its servers, and of which units.

/// What a group demands of its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// All servers are in one unit.
    Affinity,
    /// Each server is in another unit.
    Diversity,
    /// No server of others is in a unit with one of its servers.
    Exclusivity,
}

/// The units that a demand is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Hosts.
    Host,
    /// Racks. A host whose rack is not known satisfies no rule about racks.
    Rack,
    /// Clusters. A host whose cluster is not known satisfies no rule about clusters.
    Cluster,
}

impl GroupKind {
    /// All kinds.
    const ALL: [Self; 3] = [Self::Affinity, Self::Diversity, Self::Exclusivity];

    /// The name of the kind, in requests, answers and the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::Diversity => "diversity",
            Self::Exclusivity => "exclusivity",
        }
    }

    /// The kind with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Level {
    /// All levels, from the smallest units to the largest.
    pub const ALL: [Self; 3] = [Self::Host, Self::Rack, Self::Cluster];

    /// The name of the level, in requests, answers and the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Rack => "rack",
            Self::Cluster => "cluster",
        }
    }

    /// The level with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::{GroupKind, Level};

    #[test]
    fn names_and_what_they_stand_for() {
        for kind in GroupKind::ALL {
            assert_eq!(GroupKind::named(kind.name()), Some(kind));
        }
        for level in Level::ALL {
            assert_eq!(Level::named(level.name()), Some(level));
        }
        assert_eq!((GroupKind::named("Affinity"), Level::named("any")), (None, None));
    }
}
