//! Groups as clients say them, nested, and the rules that they come to.
//!
//! A group inside of another counts there as all servers below it. So every nesting has a meaning:
//! affinity and exclusivity bind all of them, and diversity keeps those of one member apart from those
//! of the others. What a group asks of its own members it asks beside that.
//!
//! Clients choose how groups are nested, so the work is bounded: each group is expanded once, however
//! many groups it is in, and [`GROUPS_MAX`], [`NESTING_MAX`] and [`MEMBERS_MAX`] bound the rest.

use std::collections::HashSet;

use thiserror::Error;

use super::problem::{Level, Rule};

/// Groups of one stack at the most, and so rules.
pub const GROUPS_MAX: usize = 1_000;
/// Groups inside of each other at the most: a group of servers only is one, a group of such groups is
/// two.
pub const NESTING_MAX: usize = 64;
/// Members of all groups of a stack together at the most. A group that is a member counts as all
/// servers below it, in each group it is a member of.
pub const MEMBERS_MAX: usize = 100_000;

/// What a group asks of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// To be in one unit.
    Affinity,
    /// To be in different units.
    Diversity,
    /// To share units with nobody else.
    Exclusivity,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What it asks.
    pub kind: Kind,
    /// Of which units.
    pub level: Level,
    /// Of whom.
    pub members: Vec<Member>,
}

/// A member of a group, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Member {
    /// A server.
    Server(usize),
    /// Another group.
    Group(usize),
}

/// Why groups make no sense, whatever the hosts are. Groups and servers are named by their
/// positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GroupError {
    /// A group is inside of itself, by way of others or not.
    #[error("group {0} is inside of itself")]
    Cycle(usize),
    /// A group has a member that there is not.
    #[error("group {0} has a member that does not exist")]
    Unknown(usize),
    /// The level of a group is higher than that of one it is inside of.
    #[error("grouping scope: the level of group {inner} is higher than that of group {outer}")]
    HigherInside {
        /// The group that is inside.
        inner: usize,
        /// The one it is inside of.
        outer: usize,
    },
    /// A server is to be apart from itself.
    #[error("server {server} is in two members of group {group}")]
    ApartFromItself {
        /// The server.
        server: usize,
        /// The group.
        group: usize,
    },
    /// A server is to be alone with each of two groups.
    #[error("server {server} is in more than one exclusivity group of one level")]
    AloneTwice {
        /// The server.
        server: usize,
    },
    /// There are more groups than [`GROUPS_MAX`].
    #[error("group {0} is one more than {GROUPS_MAX}, the most that a stack may have")]
    TooMany(usize),
    /// More groups than [`NESTING_MAX`] are inside of each other.
    #[error("more than {NESTING_MAX} groups are inside of each other in group {0}")]
    TooDeep(usize),
    /// With this group there are more members than [`MEMBERS_MAX`].
    #[error("with group {0}, all groups together have more than {MEMBERS_MAX} members")]
    TooLarge(usize),
}

/// The rules that groups of so many servers come to, in the order of the groups. A group without
/// servers comes to none.
///
/// The work and the memory are linear in the groups and in [`MEMBERS_MAX`], apart from sorting.
///
/// # Errors
/// What makes no sense.
pub fn rules(groups: &[Group], servers: usize) -> Result<Vec<(usize, Rule)>, GroupError> {
    if groups.len() > GROUPS_MAX {
        return Err(GroupError::TooMany(GROUPS_MAX));
    }
    let known = groups.iter().map(|_| Progress::New).collect();
    let mut nesting = Nesting { groups, servers, known, members: 0 };
    let mut rules = Vec::new();
    let mut alone: HashSet<(Level, usize)> = HashSet::new();
    for (number, group) in groups.iter().enumerate() {
        nesting.expand(number, Path { outermost: number, length: 1 })?;
        let all = nesting.of_group(number)?.to_vec();
        if all.is_empty() {
            continue;
        }
        let rule = match group.kind {
            Kind::Affinity => Rule::Together(group.level, all),
            Kind::Exclusivity => Rule::Alone(group.level, all),
            Kind::Diversity => Rule::Apart(group.level, disjoint(number, nesting.parts(group)?)?),
        };
        if let Rule::Alone(level, servers) = &rule {
            let twice = servers.iter().find(|server| !alone.insert((*level, **server)));
            if let Some(server) = twice {
                return Err(GroupError::AloneTwice { server: *server });
            }
        }
        rules.push((number, rule));
    }
    Ok(rules)
}

/// Groups that are being expanded.
struct Nesting<'g> {
    groups: &'g [Group],
    /// How many servers there are.
    servers: usize,
    /// How far each group is.
    known: Vec<Progress>,
    /// The members counted so far.
    members: usize,
}

/// How far a group is expanded.
enum Progress {
    New,
    /// It is above the group that is looked at.
    Open,
    /// All servers below it, in ascending order, and how many groups are inside of each other in it.
    Done {
        servers: Vec<usize>,
        layers: usize,
    },
}

/// The way from the group that was looked at first to the one that is looked at now.
#[derive(Clone, Copy)]
struct Path {
    outermost: usize,
    /// How many groups are on it.
    length: usize,
}

impl Nesting<'_> {
    /// Finds all servers below a group that exists, whatever groups they are in below it. The path
    /// bounds how deep this calls itself.
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

    /// Whether a group may be inside of another.
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

    /// What a group comes to whose members are expanded.
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

    /// The servers below a group that is expanded. One that is not, but is needed, needs itself.
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

/// The parts, of which no two have a server in common. A member that is named twice is one.
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
