//! The input of planning: a stack of servers, the groups that bind them, and their surroundings.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use uuid::Uuid;

use super::aggregates::AggregateMetadata;
use super::flavor::Size;
use crate::model::{ClassId, ExclusiveHost, GroupKind, Level, PlacementPolicy, ProviderId};
use crate::solver::groups::{
    self, GROUPS_MAX, GroupError, GroupRules, MEMBERS_MAX, Member, NESTING_MAX, Terms,
};
use crate::solver::{Rule, UnionFind};

/// A stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Its servers.
    pub servers: Vec<Server>,
    /// The groups that bind them.
    pub groups: Vec<Group>,
    /// The order of valid placements, the best first.
    pub policy: PlacementPolicy,
    /// Number of alternative placements to search for.
    pub alternatives: usize,
    /// The released allocations of removed servers.
    pub given_up: Vec<(ProviderId, ClassId, i64)>,
}

impl Stack {
    /// Returns whether a server has demands on the aggregates of its host.
    pub(crate) fn demands_aggregates(&self) -> bool {
        self.servers.iter().any(|server| !server.aggregates.is_empty())
    }

    /// The stack without absent servers, and the positions of the remaining ones.
    pub(super) fn present(&self) -> (Self, Vec<usize>) {
        let is_present = |nth: &usize| self.servers.get(*nth).is_some_and(|it| !it.absent);
        let seats: Vec<usize> = (0..self.servers.len()).filter(is_present).collect();
        let seat = |member: &Member| match member {
            Member::Server(server) => seats.binary_search(server).ok().map(Member::Server),
            Member::Group(group) => Some(Member::Group(*group)),
        };
        let group = |it: &Group| Group {
            members: it.members.iter().filter_map(seat).collect(),
            ..it.clone()
        };
        let stack = Self {
            servers: seats.iter().filter_map(|seat| self.servers.get(*seat)).cloned().collect(),
            groups: self.groups.iter().map(group).collect(),
            policy: self.policy,
            alternatives: self.alternatives,
            given_up: self.given_up.clone(),
        };
        (stack, seats)
    }

    /// The hard and soft rules of the groups, each with the position of its group.
    ///
    /// # Errors
    /// The reason why the groups are invalid.
    pub fn rules(&self) -> Result<GroupRules, GroupError> {
        let group = |it: &Group| groups::Group {
            kind: it.kind,
            level: it.level,
            terms: it.terms,
            members: it.members.clone(),
        };
        let groups: Vec<groups::Group> = self.groups.iter().map(group).collect();
        groups::rules(&groups, self.servers.len())
    }

    /// For each server, the first of those that affinity groups bind together with it, directly or through others.
    ///
    /// # Errors
    /// The reason why the groups are invalid.
    pub fn bound(&self) -> Result<Vec<usize>, GroupError> {
        let mut sets = UnionFind::new(self.servers.len());
        for (_, rule) in self.rules()?.rules {
            if let Rule::Together(_, servers) = rule {
                let others = servers.iter().skip(1);
                servers.iter().zip(others).for_each(|(one, other)| sets.join(*one, *other));
            }
        }
        Ok((0..self.servers.len()).map(|server| sets.find(server)).collect())
    }

    /// These servers and those in affinity groups with them, directly or through others.
    ///
    /// # Errors
    /// The reason why the groups are invalid.
    pub fn mates(&self, servers: &BTreeSet<usize>) -> Result<BTreeSet<usize>, GroupError> {
        let bound = self.bound()?;
        let sets: BTreeSet<usize> =
            servers.iter().filter_map(|it| bound.get(*it)).copied().collect();
        let of_sets = bound.iter().enumerate().filter(|(_, set)| sets.contains(set));
        Ok(of_sets.map(|(server, _)| server).collect())
    }

    /// A sentence about invalid groups, with the names of groups and servers.
    pub fn describe(&self, why: GroupError) -> String {
        use GroupError::{
            AloneTwice, ApartFromItself, Cycle, HigherInside, TooDeep, TooLarge, TooMany, Unknown,
        };
        let group = |nth: usize| self.groups.get(nth).map_or("?", |it| it.name.as_str());
        let server = |nth: usize| self.servers.get(nth).map_or("?", |it| it.name.as_str());
        match why {
            Cycle(it) => format!("group '{}' contains itself", group(it)),
            Unknown(it) => format!("group '{}' has a member that does not exist", group(it)),
            HigherInside { inner, outer } => format!(
                "grouping scope: nested group's level is higher: '{}' in '{}'",
                group(inner),
                group(outer)
            ),
            ApartFromItself { server: it, group: of } => {
                let (server, group) = (server(it), group(of));
                format!("server '{server}' is in two members of diversity group '{group}'")
            }
            AloneTwice { server: it } => {
                let server = server(it);
                format!("server '{server}' is in more than one exclusivity group of one level")
            }
            TooMany(it) => format!(
                "group '{}' exceeds the limit: a plan has at most {GROUPS_MAX} groups",
                group(it)
            ),
            TooDeep(it) => format!(
                "group '{}' is nested too deeply: the maximum depth is {NESTING_MAX}",
                group(it)
            ),
            TooLarge(it) => format!(
                "group '{}' is too large: all groups of a plan together have at most {MEMBERS_MAX} \
                 members, where a group inside of another counts as all of its servers",
                group(it)
            ),
        }
    }
}

/// Names of hosts. Servers share them, as one request may give many servers the same.
pub type HostNames = Arc<HashSet<String>>;

/// A server to be placed, or one that has its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Its orchestration id, in its original spelling.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it is a server or a volume.
    pub kind: ServerKind,
    /// Its size.
    pub size: Size,
    /// The required availability zone.
    pub zone: Option<String>,
    /// Demands on the metadata of the host's aggregates, by key.
    pub aggregates: BTreeMap<String, String>,
    /// Lists of host names. The host must be in each of the lists.
    pub locations: Vec<HostNames>,
    /// The lists that apply instead where its current host would not be required: they decide which domains of an even
    /// distribution it has. `None`: the same as `locations`.
    pub locations_if_free: Option<Vec<HostNames>>,
    /// Lists of host names. The host must be in none of them.
    pub excluded: Vec<HostNames>,
    /// Its current place.
    pub present: Option<Present>,
    /// Whether it must stay there.
    pub fixed: bool,
    /// Whether its size has changed since its capacity was held.
    pub resized: bool,
    /// Whether it has lost its place and does not get another one now. It is left out of the problem.
    pub absent: bool,
}

impl Server {
    /// Returns whether the server must stay on its host. A server without a host cannot.
    pub(super) fn is_fixed(&self) -> bool {
        self.fixed && self.present.as_ref().is_some_and(|present| !present.holds.is_empty())
    }

    /// Requires a server that may move to be on one host.
    pub(super) fn pin_to(&mut self, host: String) {
        let pin = vec![Arc::new(HashSet::from([host]))];
        self.locations_if_free = Some(mem::replace(&mut self.locations, pin));
    }

    /// Requires a server that moves to be on one host, besides all its other demands.
    pub(super) fn require_host(&mut self, host: String) {
        self.locations_if_free = Some(self.locations.clone());
        self.locations.push(Arc::new(HashSet::from([host])));
    }

    /// Creates a server with amounts only. A class may be repeated.
    pub fn of_amounts(id: &str, amounts: impl Iterator<Item = (String, i64)>) -> Self {
        let mut size = Size::default();
        for (class, amount) in amounts {
            *size.needs.entry(class).or_insert(0) += amount;
        }
        Self { id: id.to_owned(), name: id.to_owned(), size, ..Self::default() }
    }
}

/// The kind of a resource that gets a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerKind {
    /// A server, whose place is a host.
    #[default]
    Server,
    /// A volume, whose place is a storage backend.
    Volume,
}

/// The current place of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// Its allocations.
    pub holds: Vec<(ProviderId, ClassId, i64)>,
    /// Their holder, which decides when they are released.
    pub holder: Holder,
    /// The stored groups that the server was in.
    pub groups: BTreeSet<Uuid>,
}

impl Present {
    /// Returns whether its allocations are released if the server moves.
    pub(super) fn is_released(&self) -> bool {
        self.holder != Holder::Instance
    }
}

/// The holder of the current allocations of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The plan. It releases them if the server moves, and may hold others if it stays.
    Plan,
    /// An instance. It keeps them while the server gets others.
    Instance,
    /// A consumer that releases them if it moves, and keeps them if it stays.
    Mover,
}

/// A group of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name in responses.
    pub name: String,
    /// Its kind.
    pub kind: GroupKind,
    /// The units that it applies to.
    pub level: Level,
    /// Its further conditions.
    pub terms: Terms,
    /// Whether it is a server group of Nova.
    pub is_server_group: bool,
    /// The stored group, if it applies beyond the stack.
    pub stored: Option<Uuid>,
    /// Its members.
    pub members: Vec<Member>,
}

/// The state of other plans that a stack has to respect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// By stored group: for each server of the group outside the stack, its providers.
    pub occupied: HashMap<Uuid, Vec<Vec<ProviderId>>>,
    /// The groups for which `occupied` is known.
    pub known: HashSet<Uuid>,
    /// Hosts that groups have exclusively.
    pub exclusive: Vec<ExclusiveHost>,
    /// The names of these groups.
    pub names: HashMap<Uuid, String>,
    /// Metadata of aggregates, if a server has demands on it.
    pub aggregates: AggregateMetadata,
    /// Whether the racks of hosts without a trait for it are derived from their names.
    pub racks_by_names: bool,
    /// The policy for volumes.
    pub volume_policy: PlacementPolicy,
}
