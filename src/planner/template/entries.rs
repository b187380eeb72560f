//! Servers and groups of a request.

use std::collections::BTreeMap;

use crate::model::{GroupKind, Level};
use crate::planner::demands::Demands;
use crate::planner::json::Object;
use crate::planner::rejection::Rejection;
use crate::solver::groups::Terms;

/// A server, or a volume: a resource that gets a host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerEntry {
    /// Its orchestration id, in its original spelling.
    pub(crate) id: String,
    /// Its canonical form.
    pub(crate) key: String,
    /// Its name; its id if it has none.
    pub(crate) name: String,
    /// Its size.
    pub(crate) sizing: Sizing,
    /// Traits it requires.
    pub(crate) required: Vec<String>,
    /// Traits it forbids.
    pub(crate) forbidden: Vec<String>,
    /// Further demands on the providers of its resources.
    pub(crate) demands: Demands,
    /// The availability zone.
    pub(crate) zone: Option<String>,
    /// Allowed hosts.
    pub(crate) locations: Option<Vec<String>>,
    /// Stored groups, by id or name.
    pub(crate) groups: Vec<String>,
    /// Metadata by which placements can be searched.
    pub(crate) metadata: Object,
    /// The instance, if the request names one.
    pub(crate) resource_id: Option<String>,
    /// The bandwidth of each of its pipes, in kilobits per second, ascending.
    pub(crate) pipes: Vec<i64>,
    /// Whether it is a volume, whose host is a storage backend.
    pub(crate) is_volume: bool,
}

/// The size of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sizing {
    /// A flavor, by name or id, and the place of the root disk.
    Flavor(String, RootDisk),
    /// Amounts by resource class.
    Resources(BTreeMap<String, i64>),
}

/// The place of a server's root disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootDisk {
    /// On the host.
    OnHost,
    /// On a volume: the server boots from it.
    OnVolume,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupEntry {
    /// Its name in responses.
    pub(crate) name: String,
    /// The group that it refers to.
    pub(crate) which: GroupRef,
    /// Whether it is a server group of Nova.
    pub(crate) is_server_group: bool,
    /// Servers by position.
    pub(crate) servers: Vec<usize>,
    /// Groups inside of it, by position.
    pub(crate) groups: Vec<usize>,
}

/// A reference to a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupRef {
    /// A group of this request only.
    Here(GroupKind, Level, Terms),
    /// A stored group by its name, which must be of this kind, and at this level if it has none itself.
    Named(GroupKind, Option<Level>, String),
    /// A stored group, by id or name.
    Stored(String),
}

/// Rejects a request, with the reason.
pub(super) fn invalid(why: impl std::fmt::Display) -> Rejection {
    Rejection::Invalid(why.to_string())
}

/// Rejects a resource by its id, with the reason.
pub(super) fn wrong(id: &str, why: impl std::fmt::Display) -> Rejection {
    invalid(format!("resource '{id}': {why}"))
}
