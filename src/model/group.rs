//! Groups of servers: the kinds of their rules, and the units to which these apply.

/// The kind of a group's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKind {
    /// All servers are in one unit.
    Affinity,
    /// Each server is in another unit.
    Diversity,
    /// No other server is in a unit with one of its servers.
    Exclusivity,
}

/// The kind of units to which a rule applies.
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

    /// Returns the name of the kind in requests, responses and the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::Diversity => "diversity",
            Self::Exclusivity => "exclusivity",
        }
    }

    /// Returns the kind with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Level {
    /// All levels, from the smallest units to the largest.
    pub const ALL: [Self; 3] = [Self::Host, Self::Rack, Self::Cluster];

    /// Returns the name of the level in requests, responses and the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Rack => "rack",
            Self::Cluster => "cluster",
        }
    }

    /// Returns the level with a name.
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
