//! What is to be planned: a stack of servers, the groups that bind them, and what surrounds them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::aggregates::AggregateMetadata;
use super::flavor::Size;
use crate::model::{ClassId, ExclusiveHost, GroupKind, Level, PlacementPolicy, ProviderId};
use crate::solver::Rule;
use crate::solver::groups::{
    self, GROUPS_MAX, GroupError, GroupRules, MEMBERS_MAX, Member, NESTING_MAX, Terms,
};

/// A stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Its servers.
    pub servers: Vec<Server>,
    /// The groups that bind them.
    pub groups: Vec<Group>,
    /// Which of several valid placements is the best.
    pub policy: PlacementPolicy,
    /// How many other placements to look for beside the best.
    pub alternatives: usize,
    /// What is held for servers that are removed.
    pub given_up: Vec<(ProviderId, ClassId, i64)>,
}

impl Stack {
    /// Whether a server demands something of the aggregates of its host.
    pub(crate) fn demands_aggregates(&self) -> bool {
        self.servers.iter().any(|server| !server.aggregates.is_empty())
    }

    /// The stack without servers that are absent, and the positions of those that are left.
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

    /// The rules, hard and soft, that the groups come to, each with the position of its group.
    ///
    /// # Errors
    /// Why the groups are invalid.
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

    /// A server and those that are in affinity groups with it, directly or by way of others.
    ///
    /// # Errors
    /// Why the groups are invalid.
    pub fn mates(&self, server: usize) -> Result<BTreeSet<usize>, GroupError> {
        let bound = self.rules()?.rules.into_iter().filter_map(|(_, rule)| match rule {
            Rule::Together(_, servers) => Some(servers),
            Rule::Apart(..) | Rule::Alone(..) | Rule::AtMost(..) | Rule::Skew(_) => None,
        });
        let mut bound: Vec<Vec<usize>> = bound.collect();
        let mut groups_of: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, servers) in bound.iter().enumerate() {
            for server in servers {
                groups_of.entry(*server).or_default().push(number);
            }
        }
        let mut found = BTreeSet::from([server]);
        let mut next = vec![server];
        while let Some(server) = next.pop() {
            for group in groups_of.remove(&server).unwrap_or_default() {
                // The servers of a group are looked at once.
                let mates = bound.get_mut(group).map(std::mem::take).unwrap_or_default();
                next.extend(mates.into_iter().filter(|mate| found.insert(*mate)));
            }
        }
        Ok(found)
    }

    /// A sentence about invalid groups, with the names of groups and servers.
    pub fn describe(&self, why: GroupError) -> String {
        use GroupError::{
            AloneTwice, ApartFromItself, Cycle, HigherInside, TooDeep, TooLarge, TooMany, Unknown,
        };
        let group = |nth: usize| self.groups.get(nth).map_or("?", |it| it.name.as_str());
        let server = |nth: usize| self.servers.get(nth).map_or("?", |it| it.name.as_str());
        match why {
            Cycle(it) => format!("group '{}' is inside of itself", group(it)),
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
                "group '{}' is one too many: a plan has at most {GROUPS_MAX} groups",
                group(it)
            ),
            TooDeep(it) => format!(
                "group '{}' is nested too deep: at most {NESTING_MAX} groups are inside of each other",
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
    /// What the orchestrator calls it, as it was written.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it needs.
    pub size: Size,
    /// The availability zone it has to be in.
    pub zone: Option<String>,
    /// What the metadata of the host's aggregates must be, by key.
    pub aggregates: BTreeMap<String, String>,
    /// Lists of host names. The host has to be in each of the lists.
    pub locations: Vec<HostNames>,
    /// Lists of host names. The host must be in none of them.
    pub excluded: Vec<HostNames>,
    /// Where it is.
    pub present: Option<Present>,
    /// Whether it has to stay there.
    pub fixed: bool,
    /// Whether its size has changed since its capacity was held.
    pub resized: bool,
    /// Whether it has lost its place and is not to get another one now. It is left out of the problem.
    pub absent: bool,
}

impl Server {
    /// Whether the server has to stay where it is. One that is nowhere cannot.
    pub(super) fn is_fixed(&self) -> bool {
        self.fixed && self.present.as_ref().is_some_and(|present| !present.holds.is_empty())
    }

    /// A server of which only the amounts are known. A class may be named several times.
    pub fn of_amounts(id: &str, amounts: impl Iterator<Item = (String, i64)>) -> Self {
        let mut size = Size::default();
        for (class, amount) in amounts {
            *size.needs.entry(class).or_insert(0) += amount;
        }
        Self { id: id.to_owned(), name: id.to_owned(), size, ..Self::default() }
    }
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// What is held for it.
    pub holds: Vec<(ProviderId, ClassId, i64)>,
    /// Whether the plan gives that back when the server moves. Allocations of an instance are not the plan's.
    pub ours: bool,
}

/// A group of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What it is called in answers.
    pub name: String,
    /// What it asks.
    pub kind: GroupKind,
    /// Of which units.
    pub level: Level,
    /// What it asks beside its kind.
    pub terms: Terms,
    /// Whether it is a server group of Nova.
    pub is_server_group: bool,
    /// The stored group that it is, if it holds beyond the stack.
    pub stored: Option<Uuid>,
    /// Of whom.
    pub members: Vec<Member>,
}

/// The state of other plans that a stack has to respect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// By stored group: for each server of the group outside the stack, the providers that it uses.
    pub occupied: HashMap<Uuid, Vec<Vec<ProviderId>>>,
    /// The groups for which `occupied` is known.
    pub known: HashSet<Uuid>,
    /// Hosts that groups have exclusively.
    pub exclusive: Vec<ExclusiveHost>,
    /// The names of these groups.
    pub names: HashMap<Uuid, String>,
    /// Metadata of aggregates, if a server demands some.
    pub aggregates: AggregateMetadata,
    /// Whether hosts without a trait for their rack are in the one that their name says.
    pub racks_by_names: bool,
}
