//! Groups as clients say them, nested, and the rules that they come to.
//!
//! A group inside of another counts there as all servers below it. So every nesting has a meaning:
//! affinity and exclusivity bind all of them, and diversity keeps those of one member apart from those
//! of the others. What a group asks of its own members it asks beside that.

use thiserror::Error;

use super::{Level, Rule};

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
pub enum Senseless {
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
}

/// The rules that groups of so many servers come to, in the order of the groups. A group without
/// servers comes to none.
///
/// # Errors
/// What makes no sense.
pub fn rules(groups: &[Group], servers: usize) -> Result<Vec<(usize, Rule)>, Senseless> {
    let mut rules = Vec::new();
    let mut alone: Vec<(Level, usize)> = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let mut parts = Vec::new();
        for member in &group.members {
            let part = below(groups, servers, number, *member, &mut vec![number])?;
            if !part.is_empty() {
                parts.push(part);
            }
        }
        let rule = match group.kind {
            Kind::Affinity => Rule::Together(group.level, united(&parts)),
            Kind::Exclusivity => Rule::Alone(group.level, united(&parts)),
            Kind::Diversity => Rule::Apart(group.level, disjoint(number, parts)?),
        };
        let bound = rule.servers();
        if let Rule::Alone(level, _) = rule {
            for server in &bound {
                if alone.contains(&(level, *server)) {
                    return Err(Senseless::AloneTwice { server: *server });
                }
                alone.push((level, *server));
            }
        }
        if !bound.is_empty() {
            rules.push((number, rule));
        }
    }
    Ok(rules)
}

/// The servers of a member of a group, whatever groups they are in below it. `path` has the groups
/// above.
fn below(
    groups: &[Group],
    servers: usize,
    outer: usize,
    member: Member,
    path: &mut Vec<usize>,
) -> Result<Vec<usize>, Senseless> {
    let inner = match member {
        Member::Server(server) if server < servers => return Ok(vec![server]),
        Member::Server(_) => return Err(Senseless::Unknown(outer)),
        Member::Group(inner) => inner,
    };
    if path.contains(&inner) {
        return Err(Senseless::Cycle(inner));
    }
    let group = groups.get(inner).ok_or(Senseless::Unknown(outer))?;
    if groups.get(outer).is_some_and(|outer| group.level > outer.level) {
        return Err(Senseless::HigherInside { inner, outer });
    }
    path.push(inner);
    let mut found = Vec::new();
    for member in &group.members {
        found.extend(below(groups, servers, inner, *member, path)?);
    }
    path.pop();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn united(parts: &[Vec<usize>]) -> Vec<usize> {
    let mut servers = parts.concat();
    servers.sort_unstable();
    servers.dedup();
    servers
}

/// The parts, of which no two have a server in common. A member that is named twice is one.
fn disjoint(group: usize, mut parts: Vec<Vec<usize>>) -> Result<Vec<Vec<usize>>, Senseless> {
    parts.sort_unstable();
    parts.dedup();
    let mut all = parts.concat();
    all.sort_unstable();
    let twice = all.windows(2).find_map(|pair| match pair {
        [one, other] if one == other => Some(*one),
        _ => None,
    });
    twice.map_or(Ok(parts), |server| Err(Senseless::ApartFromItself { server, group }))
}

#[cfg(test)]
mod tests {
    use super::{Group, Kind, Level, Member, Rule, Senseless, rules};

    const A: Kind = Kind::Affinity;
    const D: Kind = Kind::Diversity;
    const E: Kind = Kind::Exclusivity;

    fn s(server: usize) -> Member {
        Member::Server(server)
    }

    fn g(group: usize) -> Member {
        Member::Group(group)
    }

    fn groups(groups: &[(Kind, Level, &[Member])]) -> Vec<Group> {
        let group = |(kind, level, members): &(Kind, Level, &[Member])| Group {
            kind: *kind,
            level: *level,
            members: members.to_vec(),
        };
        groups.iter().map(group).collect()
    }

    /// Every nesting of two, at one level: what the outer group, which is the second, comes to.
    #[test]
    fn every_nesting_has_a_meaning() {
        let host = Level::Host;
        for inner in [A, D, E] {
            for outer in [A, D, E] {
                let nested = groups(&[(inner, host, &[s(0), s(1)]), (outer, host, &[g(0), s(2)])]);
                let found = rules(&nested, 3);
                let expected = match outer {
                    Kind::Affinity => Rule::Together(host, vec![0, 1, 2]),
                    Kind::Diversity => Rule::Apart(host, vec![vec![0, 1], vec![2]]),
                    Kind::Exclusivity => Rule::Alone(host, vec![0, 1, 2]),
                };
                if (inner, outer) == (E, E) {
                    assert_eq!(found, Err(Senseless::AloneTwice { server: 0 }));
                } else {
                    assert_eq!(found.unwrap()[1], (1, expected), "{inner:?} in {outer:?}");
                }
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (host, rack) = (Level::Host, Level::Rack);
        for (said, why) in [
            (groups(&[(A, host, &[g(0)])]), Senseless::Cycle(0)),
            (
                groups(&[(A, host, &[g(1)]), (A, host, &[g(2)]), (D, host, &[s(0), g(0)])]),
                Senseless::Cycle(0),
            ),
            (groups(&[(A, host, &[s(9)])]), Senseless::Unknown(0)),
            (groups(&[(A, host, &[g(9)])]), Senseless::Unknown(0)),
            (
                groups(&[(A, host, &[g(1)]), (D, rack, &[s(0), s(1)])]),
                Senseless::HigherInside { inner: 1, outer: 0 },
            ),
            (
                groups(&[(D, host, &[s(0), g(1)]), (A, host, &[s(0), s(1)])]),
                Senseless::ApartFromItself { server: 0, group: 0 },
            ),
            (
                groups(&[(E, rack, &[s(0)]), (E, rack, &[s(0), s(1)])]),
                Senseless::AloneTwice { server: 0 },
            ),
        ] {
            assert_eq!(rules(&said, 2), Err(why), "{said:?}");
        }
    }

    #[test]
    fn members_count_once_and_empty_groups_not_at_all() {
        let said = groups(&[
            (A, Level::Rack, &[s(1), s(0), s(1), g(2)]),
            (D, Level::Host, &[s(1), s(1), s(0)]),
            (A, Level::Host, &[]),
        ]);
        let expected = vec![
            (0, Rule::Together(Level::Rack, vec![0, 1])),
            (1, Rule::Apart(Level::Host, vec![vec![0], vec![1]])),
        ];
        assert_eq!(rules(&said, 2), Ok(expected));
    }

    #[test]
    fn a_group_in_several_groups_is_no_cycle() {
        let shared = groups(&[
            (A, Level::Host, &[s(0), s(1)]),
            (A, Level::Rack, &[g(0), s(2)]),
            (E, Level::Rack, &[g(0), g(1)]),
        ]);
        let found = rules(&shared, 3).unwrap();
        assert_eq!(found[2], (2, Rule::Alone(Level::Rack, vec![0, 1, 2])));
    }
}
