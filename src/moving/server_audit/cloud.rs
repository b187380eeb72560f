//! The servers of nova, as a list has them.

use std::collections::{HashMap, HashSet};

use time::OffsetDateTime;
use uuid::Uuid;

use super::flavor::Needs;

/// A snapshot of nova's data.
#[derive(Clone, Debug)]
pub struct Cloud {
    /// A description of the source.
    pub source: String,
    /// Time of the snapshot. Later changes are not judged.
    pub taken: OffsetDateTime,
    /// The servers that are not deleted.
    pub servers: HashMap<Uuid, Server>,
    /// The servers that are listed as deleted.
    pub deleted: HashSet<Uuid>,
    /// A reason to doubt that the list of servers is complete.
    pub doubt: Option<String>,
}

/// A server that is not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Whether an operation is in progress.
    pub state: ServerState,
    /// Whether nova reports it as failed.
    pub failed: bool,
    /// Its host.
    pub place: Place,
    /// Its project, if the source has it.
    pub project: Option<String>,
    /// Its user, if the source has it.
    pub user: Option<String>,
    /// When it was created or last changed, if the source has it.
    pub changed: Option<OffsetDateTime>,
    /// The requirements of its flavor, if the source has them.
    pub needs: Option<Needs>,
}

/// The activity of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// No operation in progress.
    Settled,
    /// In progress: nova's task or status.
    Busy(String),
    /// Its cell did not respond.
    Unknown,
}

/// The location of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// No host: shelved, or never scheduled.
    Nowhere,
    /// A host with these names. The first is that of the hypervisor, if there are two.
    Named(Vec<String>),
}
