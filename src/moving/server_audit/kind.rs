//! The kinds of findings: their names and explanations.

use serde::{Deserialize, Serialize};

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A consumer that nova does not know.
    Orphan,
    /// A consumer that nova has deleted.
    DeletedServer,
    /// A server has allocations on several hosts.
    SeveralHosts,
    /// A server has allocations only on hosts where it does not run.
    WrongHost,
    /// A server without a host has allocations.
    WithoutHost,
    /// A server on a host has no allocations.
    NoAllocations,
    /// A server's amounts differ from those of its flavor.
    WrongAmounts,
    /// A server's allocations belong to another project or user.
    WrongOwner,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Orphan,
        Self::DeletedServer,
        Self::SeveralHosts,
        Self::WrongHost,
        Self::WithoutHost,
        Self::NoAllocations,
        Self::WrongAmounts,
        Self::WrongOwner,
    ];

    /// Its name in reports and plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orphan => "orphan",
            Self::DeletedServer => "deleted-server",
            Self::SeveralHosts => "several-hosts",
            Self::WrongHost => "wrong-host",
            Self::WithoutHost => "without-host",
            Self::NoAllocations => "no-allocations",
            Self::WrongAmounts => "wrong-amounts",
            Self::WrongOwner => "wrong-owner",
        }
    }

    /// Describes the kind and its origin.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Orphan => {
                "allocations of a consumer that is neither a server nor a migration; they stay when a \
                 server is deleted while its host or the placement service is away"
            }
            Self::DeletedServer => "allocations of a server that nova has deleted",
            Self::SeveralHosts => "the server runs on one host, and holds others as well",
            Self::WrongHost => "the server runs on one host, and holds only others",
            Self::WithoutHost => {
                "the server is on no host (shelved, or it could not be scheduled), and still holds one"
            }
            Self::NoAllocations => {
                "the server runs on a host, and holds nothing there: the host looks emptier than it is"
            }
            Self::WrongAmounts => "the server holds other amounts than its flavor asks for",
            Self::WrongOwner => {
                "the allocations of the server are counted for another project or user"
            }
        }
    }

    /// Returns whether the only evidence is that the source lacks the consumer.
    pub fn rests_on_absence(self) -> bool {
        self == Self::Orphan
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn names_are_those_of_plans() {
        for kind in Kind::ALL {
            let name = serde_json::to_value(kind).unwrap();
            assert_eq!(name, kind.name());
        }
    }
}
