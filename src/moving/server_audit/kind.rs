//! The situations that an audit finds: their names, and what they are in plain words.

use serde::{Deserialize, Serialize};

/// A situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A consumer that nova does not know.
    Orphan,
    /// A consumer that nova has deleted.
    DeletedServer,
    /// A migration that has ended holds something.
    EndedMigration,
    /// A migration has ended without success, and still holds what its server should hold.
    UnrevertedMigration,
    /// A server holds something on the host that it was evacuated from.
    LeftByEvacuation,
    /// A server holds something on the other host of a resize or a cold migration.
    LeftByResize,
    /// A server holds something on the other host of a live migration.
    LeftByLiveMigration,
    /// A server holds something on several hosts.
    SeveralHosts,
    /// A server holds something only on hosts where it does not run.
    WrongHost,
    /// A server without a host holds something.
    WithoutHost,
    /// A server on a host holds nothing.
    NoAllocations,
    /// A server holds other amounts than its flavor asks for.
    WrongAmounts,
    /// A server's allocations are counted for another project or user.
    WrongOwner,
    /// A server is on a host that nova has no compute node of.
    HostWithoutNode,
    /// A provider of a host whose compute node is gone.
    ProviderWithoutNode,
    /// A provider has the name of a compute node, and not its UUID.
    ProviderOfReplacedNode,
    /// A compute node has no provider.
    NodeWithoutProvider,
    /// A compute node has no nova-compute service.
    NodeWithoutService,
}

impl Kind {
    /// All, in the order in which a report has them.
    pub const ALL: [Self; 18] = [
        Self::Orphan,
        Self::DeletedServer,
        Self::EndedMigration,
        Self::UnrevertedMigration,
        Self::LeftByEvacuation,
        Self::LeftByResize,
        Self::LeftByLiveMigration,
        Self::SeveralHosts,
        Self::WrongHost,
        Self::WithoutHost,
        Self::NoAllocations,
        Self::WrongAmounts,
        Self::WrongOwner,
        Self::HostWithoutNode,
        Self::ProviderWithoutNode,
        Self::ProviderOfReplacedNode,
        Self::NodeWithoutProvider,
        Self::NodeWithoutService,
    ];

    /// Its name in reports and plans.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orphan => "orphan",
            Self::DeletedServer => "deleted-server",
            Self::EndedMigration => "ended-migration",
            Self::UnrevertedMigration => "unreverted-migration",
            Self::LeftByEvacuation => "left-by-evacuation",
            Self::LeftByResize => "left-by-resize",
            Self::LeftByLiveMigration => "left-by-live-migration",
            Self::SeveralHosts => "several-hosts",
            Self::WrongHost => "wrong-host",
            Self::WithoutHost => "without-host",
            Self::NoAllocations => "no-allocations",
            Self::WrongAmounts => "wrong-amounts",
            Self::WrongOwner => "wrong-owner",
            Self::HostWithoutNode => "host-without-node",
            Self::ProviderWithoutNode => "provider-without-node",
            Self::ProviderOfReplacedNode => "provider-of-replaced-node",
            Self::NodeWithoutProvider => "node-without-provider",
            Self::NodeWithoutService => "node-without-service",
        }
    }

    /// What it is, and where it comes from.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Orphan => {
                "allocations of a consumer that is neither a server nor a migration; they stay when a \
                 server is deleted while its host or the placement service is away"
            }
            Self::DeletedServer => "allocations of a server that nova has deleted",
            Self::EndedMigration => {
                "allocations of a migration that has ended; its server holds what it needs by itself"
            }
            Self::UnrevertedMigration => {
                "a migration has ended, and still holds on the server's host what the server should hold \
                 there"
            }
            Self::LeftByEvacuation => {
                "the server was evacuated, and still holds what it had on the host that failed; \
                 nova-compute there would remove it when it starts again"
            }
            Self::LeftByResize => {
                "a resize or cold migration has ended, and the server holds both hosts"
            }
            Self::LeftByLiveMigration => {
                "a live migration has ended, and the server holds both hosts"
            }
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
            Self::HostWithoutNode => "nova has no compute node of the host that the server runs on",
            Self::ProviderWithoutNode => {
                "a provider of a host that nova has no compute node of: nova-compute was removed"
            }
            Self::ProviderOfReplacedNode => {
                "a provider has the name of a compute node, but another UUID: nova-compute cannot make \
                 its own provider under that name"
            }
            Self::NodeWithoutProvider => {
                "a compute node has no provider, so that nothing is scheduled to it; nova-compute makes \
                 it when it runs"
            }
            Self::NodeWithoutService => {
                "a compute node has a provider, but its nova-compute service was deleted"
            }
        }
    }

    /// Whether what is found has no other evidence than that the source does not name the consumer.
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
