//! The servers of nova, as a list has them.

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
    /// The servers that are listed as deleted.
    pub deleted: HashSet<Uuid>,
    /// Why the list of servers may not be complete, although it can be read.
    pub doubt: Option<String>,
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
    /// On a host of these names. The first is that of the hypervisor, if there are two.
    Named(Vec<String>),
}
