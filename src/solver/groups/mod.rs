//! Converts the nested groups of clients to the solver's rules.
//!
//! A nested group counts in the outer group as all servers below it. Every nesting therefore has a meaning:
//! affinity and exclusivity bind all of these servers, and diversity keeps the servers of one member apart from
//! those of the other members. The nested group's own rule applies in addition.
//!
//! A soft group binds the same servers by a [`SoftRule`] instead of a rule. A group that limits the number of its
//! servers in a unit counts all servers below it individually, whatever groups they are in.
//!
//! *Example.* A diversity group of racks with the members X and Y, where X and Y are affinity groups of hosts with
//! two servers each, becomes three rules: `Apart(Rack, [[0, 1], [2, 3]])`, `Together(Host, [0, 1])`,
//! `Together(Host, [2, 3])`.
//!
//! Clients choose the nesting, so the work is bounded: each group is expanded once, however many groups contain it,
//! and [`GROUPS_MAX`], [`NESTING_MAX`] and [`MEMBERS_MAX`] bound the rest.

use std::collections::HashSet;

use thiserror::Error;

use super::problem::{Level, Rule, Skew, SoftRule, SoftRuleKind};
use crate::model::GroupKind;

/// The maximum number of groups, and so of rules, of one stack.
pub const GROUPS_MAX: usize = 1_000;
/// The maximum depth of nesting: a group of servers has depth one, a group of such groups depth
/// two.
pub const NESTING_MAX: usize = 64;
/// The maximum number of members of all groups of a stack together. A nested group counts as all
/// servers below it, in each group that contains it.
pub const MEMBERS_MAX: usize = 100_000;

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its rule.
    pub kind: GroupKind,
    /// The units that the rule applies to.
    pub level: Level,
    /// Its further conditions.
    pub terms: Terms,
    /// Its members.
    pub members: Vec<Member>,
}

/// Conditions of a group besides its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Affinity and diversity: if the rule may be broken, the cost of each pair that breaks it.
    pub soft: Option<u32>,
    /// Diversity: the maximum number of servers in one unit, instead of keeping members apart.
    pub max_per_unit: Option<u32>,
    /// Diversity: the maximum difference between the numbers of servers of two domains, instead of keeping members
    /// apart.
    pub max_skew: Option<u32>,
}

/// The hard and soft rules of groups, in the order of the groups, each with the position of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRules {
    /// Rules that must hold.
    pub rules: Vec<(usize, Rule)>,
    /// Rules that may be broken.
    pub soft_rules: Vec<(usize, SoftRule)>,
}

/// A member of a group, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Member {
    /// A server.
    Server(usize),
    /// Another group.
    Group(usize),
}

/// A reason why no choice of hosts can satisfy some groups. Groups and servers are given by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GroupError {
    /// A group contains itself, directly or through others.
    #[error("group {0} contains itself")]
    Cycle(usize),
    /// A group has a member that does not exist.
    #[error("group {0} has a member that does not exist")]
    Unknown(usize),
    /// The level of a group is higher than that of a group that contains it.
    #[error("grouping scope: the level of group {inner} is higher than that of group {outer}")]
    HigherInside {
        /// The nested group.
        inner: usize,
        /// The group that contains it.
        outer: usize,
    },
    /// A server is in two members of a diversity group.
    #[error("server {server} is in two members of group {group}")]
    ApartFromItself {
        /// The server.
        server: usize,
        /// The group.
        group: usize,
    },
    /// A server is in two exclusivity groups of one level.
    #[error("server {server} is in more than one exclusivity group of one level")]
    AloneTwice {
        /// The server.
        server: usize,
    },
    /// There are more groups than [`GROUPS_MAX`].
    #[error("group {0} is one more than {GROUPS_MAX}, the most that a stack may have")]
    TooMany(usize),
    /// The nesting is deeper than [`NESTING_MAX`].
    #[error("group {0} is nested more than {NESTING_MAX} deep")]
    TooDeep(usize),
    /// This group brings the members to more than [`MEMBERS_MAX`].
    #[error("with group {0}, all groups together have more than {MEMBERS_MAX} members")]
    TooLarge(usize),
}

/// Converts groups over a number of servers to rules and soft rules. A group without servers has no rule. The
/// domains of even distributions are left empty: they depend on the hosts.
///
/// Work and memory are linear in the groups and in [`MEMBERS_MAX`], except for sorting.
///
/// # Errors
/// No choice of hosts can satisfy the groups, or they exceed a limit.
pub fn rules(groups: &[Group], servers: usize) -> Result<GroupRules, GroupError> {
    if groups.len() > GROUPS_MAX {
        return Err(GroupError::TooMany(GROUPS_MAX));
    }
    let known = groups.iter().map(|_| Progress::New).collect();
    let mut nesting = Nesting { groups, servers, known, members: 0 };
    let mut found = GroupRules::default();
    let mut alone: HashSet<(Level, usize)> = HashSet::new();
    for (number, group) in groups.iter().enumerate() {
        nesting.expand(number, Path { outermost: number, length: 1 })?;
        let all = nesting.of_group(number)?.to_vec();
        if all.is_empty() {
            continue;
        }
        if let Some(weight) = group.terms.soft {
            let soft = soft(&nesting, number, group, weight, all)?;
            found.soft_rules.extend(soft.map(|soft| (number, soft)));
            continue;
        }
        if group.terms.max_per_unit.is_some() || group.terms.max_skew.is_some() {
            found.rules.extend(counting(group, &all).map(|rule| (number, rule)));
            continue;
        }
        let rule = match group.kind {
            GroupKind::Affinity => Rule::Together(group.level, all),
            GroupKind::Exclusivity => Rule::Alone(group.level, all),
            GroupKind::Diversity => {
                Rule::Apart(group.level, disjoint(number, nesting.parts(group)?)?)
            }
        };
        if let Rule::Alone(level, servers) = &rule {
            let twice = servers.iter().find(|server| !alone.insert((*level, **server)));
            if let Some(server) = twice {
                return Err(GroupError::AloneTwice { server: *server });
            }
        }
        found.rules.push((number, rule));
    }
    Ok(found)
}

/// The rules that count the servers of a group in each unit.
fn counting(group: &Group, servers: &[usize]) -> impl Iterator<Item = Rule> {
    let at_most = group.terms.max_per_unit;
    let at_most = at_most.map(|most| Rule::AtMost(group.level, most, servers.to_vec()));
    let skew = |most| Skew {
        level: group.level,
        most,
        servers: servers.to_vec(),
        domains: Vec::new(),
        absent: 0,
    };
    at_most.into_iter().chain(group.terms.max_skew.map(skew).map(Rule::Skew))
}

/// The rule of a soft group; exclusivity has no soft rule.
fn soft(
    nesting: &Nesting<'_>,
    number: usize,
    group: &Group,
    weight: u32,
    servers: Vec<usize>,
) -> Result<Option<SoftRule>, GroupError> {
    let (kind, parts) = match group.kind {
        GroupKind::Affinity => (SoftRuleKind::Together, vec![servers]),
        GroupKind::Diversity => (SoftRuleKind::Apart, disjoint(number, nesting.parts(group)?)?),
        GroupKind::Exclusivity => return Ok(None),
    };
    Ok(Some(SoftRule { kind, level: group.level, weight, parts }))
}

/// The expansion of groups into servers.
struct Nesting<'g> {
    groups: &'g [Group],
    /// The number of servers.
    servers: usize,
    /// The progress of each group.
    known: Vec<Progress>,
    /// The members counted so far.
    members: usize,
}

/// The progress of expanding a group.
enum Progress {
    New,
    /// The group contains the one that is being expanded.
    Open,
    /// All servers below it, ascending, and its depth of nesting.
    Done {
        servers: Vec<usize>,
        layers: usize,
    },
}

/// The path from the outermost group to the one that is being expanded.
#[derive(Clone, Copy)]
struct Path {
    outermost: usize,
    /// The number of groups on the path.
    length: usize,
}

impl Nesting<'_> {
    /// Expands an existing group, and the groups in it. The path bounds the depth of the recursion.
    fn expand(&mut self, number: usize, path: Path) -> Result<(), GroupError> {
        let groups = self.groups;
        let unknown = GroupError::Unknown(number);
        let group = groups.get(number).ok_or(unknown)?;
        match self.known.get_mut(number).ok_or(unknown)? {
            Progress::Done { .. } => return Ok(()),
            _ if path.length > NESTING_MAX => return Err(GroupError::TooDeep(path.outermost)),
            progress @ (Progress::New | Progress::Open) => *progress = Progress::Open,
        }
        for member in &group.members {
            match member {
                Member::Server(server) if *server < self.servers => {}
                Member::Server(_) => return Err(unknown),
                Member::Group(inner) => {
                    self.enter(number, *inner)?;
                    self.expand(*inner, Path { length: path.length + 1, ..path })?;
                }
            }
        }
        let done = self.united(number, group)?;
        *self.known.get_mut(number).ok_or(unknown)? = done;
        Ok(())
    }

    /// Checks that a group may contain another.
    fn enter(&self, outer: usize, inner: usize) -> Result<(), GroupError> {
        if matches!(self.known.get(inner), Some(Progress::Open)) {
            return Err(GroupError::Cycle(inner));
        }
        let level = |number: usize| self.groups.get(number).map(|group| group.level);
        let inner_level = level(inner).ok_or(GroupError::Unknown(outer))?;
        if level(outer).is_some_and(|outer| inner_level > outer) {
            return Err(GroupError::HigherInside { inner, outer });
        }
        Ok(())
    }

    /// Combines the expanded members of a group.
    fn united(&mut self, number: usize, group: &Group) -> Result<Progress, GroupError> {
        let mut layers = 1;
        for member in &group.members {
            if let Member::Group(inner) = member
                && let Some(Progress::Done { layers: below, .. }) = self.known.get(*inner)
            {
                layers = layers.max(below + 1);
            }
            self.members += self.of_member(member)?.len().max(1);
            if self.members > MEMBERS_MAX {
                return Err(GroupError::TooLarge(number));
            }
        }
        if layers > NESTING_MAX {
            return Err(GroupError::TooDeep(number));
        }
        let mut servers = Vec::new();
        for member in &group.members {
            servers.extend_from_slice(self.of_member(member)?);
        }
        servers.sort_unstable();
        servers.dedup();
        Ok(Progress::Done { servers, layers })
    }

    /// The servers below an expanded group. A group that is needed before it has been expanded contains itself.
    fn of_group(&self, number: usize) -> Result<&[usize], GroupError> {
        match self.known.get(number) {
            Some(Progress::Done { servers, .. }) => Ok(servers),
            Some(Progress::New | Progress::Open) | None => Err(GroupError::Cycle(number)),
        }
    }

    fn of_member<'n>(&'n self, member: &'n Member) -> Result<&'n [usize], GroupError> {
        match member {
            Member::Server(server) => Ok(std::slice::from_ref(server)),
            Member::Group(group) => self.of_group(*group),
        }
    }

    /// The servers of each member that has any.
    fn parts(&self, group: &Group) -> Result<Vec<Vec<usize>>, GroupError> {
        let parts = group.members.iter().map(|member| Ok(self.of_member(member)?.to_vec()));
        let mut parts = parts.collect::<Result<Vec<Vec<usize>>, GroupError>>()?;
        parts.retain(|part| !part.is_empty());
        Ok(parts)
    }
}

/// Checks that no two parts have a server in common. A member that is named twice counts once.
fn disjoint(group: usize, mut parts: Vec<Vec<usize>>) -> Result<Vec<Vec<usize>>, GroupError> {
    parts.sort_unstable();
    parts.dedup();
    let mut all = parts.concat();
    all.sort_unstable();
    let twice = all.windows(2).find_map(|pair| match pair {
        [one, other] if one == other => Some(*one),
        _ => None,
    });
    twice.map_or(Ok(parts), |server| Err(GroupError::ApartFromItself { server, group }))
}

#[cfg(test)]
mod tests;
