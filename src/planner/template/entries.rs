//! Servers and groups of a request.

use std::collections::BTreeMap;

use crate::model::{GroupKind, Level};
use crate::planner::demands::Demands;
use crate::planner::json::Object;
use crate::planner::rejection::Rejection;
use crate::solver::groups::Terms;

/// A server, or a volume: what gets a host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerEntry {
    /// Its orchestration id, as it was written.
    pub(crate) id: String,
    /// The same as it is compared.
    pub(crate) key: String,
    /// Its name; its id if it has none.
    pub(crate) name: String,
    /// How large it is.
    pub(crate) sizing: Sizing,
    /// Traits it requires.
    pub(crate) required: Vec<String>,
    /// Traits it forbids.
    pub(crate) forbidden: Vec<String>,
    /// What it asks of the providers of its resources besides.
    pub(crate) demands: Demands,
    /// The availability zone.
    pub(crate) zone: Option<String>,
    /// Hosts it may be on.
    pub(crate) locations: Option<Vec<String>>,
    /// Stored groups, by id or name.
    pub(crate) groups: Vec<String>,
    /// Metadata by which placements can be searched.
    pub(crate) metadata: Object,
    /// The instance, if the request names one.
    pub(crate) resource_id: Option<String>,
    /// The bandwidth of its pipes, in kilobits per second.
    pub(crate) kilobits: i64,
    /// Whether it is a volume, whose host is a storage backend.
    pub(crate) is_volume: bool,
}

/// How large a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sizing {
    /// As a flavor, by name or id.
    Flavor(String),
    /// These amounts by resource class.
    Resources(BTreeMap<String, i64>),
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupEntry {
    /// What it is called in answers.
    pub(crate) name: String,
    /// What it is.
    pub(crate) which: GroupRef,
    /// Whether it is a server group of Nova.
    pub(crate) is_server_group: bool,
    /// Servers by position, and groups by position.
    pub(crate) servers: Vec<usize>,
    /// Groups inside of it.
    pub(crate) groups: Vec<usize>,
}

/// Which group it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupRef {
    /// Of this request only.
    Here(GroupKind, Level, Terms),
    /// A stored one by its name, which is to be of this kind, and at this level if it has none itself.
    Named(GroupKind, Option<Level>, String),
    /// A stored one, by id or name.
    Stored(String),
}

/// A request is wrong; why.
pub(super) fn invalid(why: impl std::fmt::Display) -> Rejection {
    Rejection::Invalid(why.to_string())
}

/// A resource is wrong; its id, and why.
pub(super) fn wrong(id: &str, why: impl std::fmt::Display) -> Rejection {
    invalid(format!("resource '{id}': {why}"))
}
