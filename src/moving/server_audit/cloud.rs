//! What nova knows of its servers, migrations and compute nodes, whichever source told it.

use std::collections::{HashMap, HashSet};

use time::OffsetDateTime;
use uuid::Uuid;

use super::flavor::Needs;

/// What nova knew at one moment.
#[derive(Clone, Debug)]
pub struct Cloud {
    /// Where it was read, for people.
    pub source: String,
    /// When it was read or written down. What has changed since is not judged.
    pub taken: OffsetDateTime,
    /// The servers that are not deleted.
    pub servers: HashMap<Uuid, Server>,
    /// Consumers that are deleted servers, with the time of the deletion if it is known.
    pub deleted: HashMap<Uuid, Option<OffsetDateTime>>,
    /// What only nova's database tells.
    pub database: Option<FromDatabase>,
    /// Why the list of servers may not be complete, although it can be read.
    pub doubt: Option<String>,
}

/// What nova's database tells, and a list of servers does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromDatabase {
    /// The migrations that are under way, and ended ones that may explain what a consumer holds.
    pub migrations: HashMap<Uuid, Migration>,
    /// The compute nodes, also deleted ones.
    pub nodes: HashMap<Uuid, Node>,
    /// Servers that nova's API database knows, and no cell that was read; none without that database.
    pub elsewhere: Option<HashSet<Uuid>>,
}

/// A server that is not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Whether something is being done with it.
    pub state: State,
    /// Whether nova calls it failed.
    pub failed: bool,
    /// Where it runs.
    pub place: Place,
    /// Its project, if the source tells.
    pub project: Option<String>,
    /// Its user, if the source tells.
    pub user: Option<String>,
    /// When it was created or last changed, if the source tells.
    pub changed: Option<OffsetDateTime>,
    /// What its flavor asks for, if the source tells.
    pub needs: Option<Needs>,
}

/// Whether something is being done with a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Settled,
    /// This: nova's task or status.
    Busy(String),
    /// Its cell did not answer.
    Unknown,
}

/// Where a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On no host: shelved, or never scheduled.
    Nowhere,
    /// On this compute node, which is a provider of the same UUID.
    Node(Uuid),
    /// On a host of these names. The first is that of the hypervisor, if there are two.
    Named(Vec<String>),
    /// On this host, which has no compute node in nova's database.
    Lost(String),
}

/// A migration: also a resize, a live migration and an evacuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The server that is or was migrated.
    pub server: Option<Uuid>,
    /// nova's name of its kind: `migration`, `resize`, `live-migration`, `evacuation`.
    pub kind: String,
    /// nova's word for where it stands.
    pub status: String,
    /// The compute node that the server left.
    pub source: Option<Uuid>,
    /// The compute node that the server was to come to.
    pub target: Option<Uuid>,
    /// When it last changed.
    pub changed: Option<OffsetDateTime>,
}

/// The statuses in which a migration has ended. `finished` is none of them: such a resize waits to be
/// confirmed or reverted.
const ENDED: [&str; 7] =
    ["confirmed", "reverted", "error", "failed", "completed", "cancelled", "done"];

impl Migration {
    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        ENDED.contains(&self.status.as_str())
    }
}

/// A compute node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The host of its nova-compute.
    pub host: String,
    /// The name of its hypervisor, which is the name of its provider.
    pub name: String,
    /// Whether nova has deleted it.
    pub deleted: bool,
    /// Whether there is a nova-compute service of its host.
    pub has_service: bool,
    /// When it was created, if that is known.
    pub created: Option<OffsetDateTime>,
}

#[cfg(test)]
mod tests {
    use super::Migration;

    #[test]
    fn a_resize_that_waits_for_confirmation_has_not_ended() {
        let of = |status: &str| Migration {
            server: None,
            kind: "resize".to_owned(),
            status: status.to_owned(),
            source: None,
            target: None,
            changed: None,
        };
        assert!(!of("finished").has_ended());
        assert!(!of("post-migrating").has_ended());
        assert!(of("confirmed").has_ended());
        assert!(of("done").has_ended());
    }
}
