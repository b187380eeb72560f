//! Rules that servers break which have to stay where they are: instances go where their cloud puts
//! them, and a plan that has drifted must still be able to grow. What is broken already is not asked
//! for again; everybody else keeps the rest of the rule.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::solver::Rule;

/// Where servers are that stay.
#[derive(Debug, Default)]
pub(super) struct FixedServers {
    /// The unit that a server which stays is in, by server; those that may move are not in it.
    unit_of: HashMap<usize, Option<usize>>,
    /// How many of them are in each unit.
    in_unit: HashMap<usize, usize>,
}

impl FromIterator<(usize, Option<usize>)> for FixedServers {
    fn from_iter<T: IntoIterator<Item = (usize, Option<usize>)>>(servers: T) -> Self {
        let mut stays = Self::default();
        for (server, unit) in servers {
            stays.unit_of.insert(server, unit);
            if let Some(unit) = unit {
                *stays.in_unit.entry(unit).or_insert(0) += 1;
            }
        }
        stays
    }
}

/// A rule as far as servers that stay do not break it.
pub(super) fn without_broken(rule: Rule, stays: &FixedServers) -> Rule {
    match rule {
        Rule::Together(level, servers) => Rule::Together(level, together(servers, stays)),
        Rule::Apart(level, parts) => Rule::Apart(level, apart(parts, stays)),
        Rule::Alone(level, servers) => Rule::Alone(level, alone(servers, stays)),
    }
}

/// Those who stay count only where most of them are.
fn together(servers: Vec<usize>, stays: &FixedServers) -> Vec<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for unit in servers.iter().filter_map(|server| *stays.unit_of.get(server)?) {
        *counts.entry(unit).or_insert(0) += 1;
    }
    let most = counts.iter().max_by_key(|(unit, count)| (**count, usize::MAX - **unit));
    let most = most.map(|(unit, _)| *unit);
    let keeps = |server: &usize| {
        stays.unit_of.get(server).is_none_or(|unit| unit.is_some() && *unit == most)
    };
    servers.into_iter().filter(keeps).collect()
}

/// Of those who stay, the first in each unit counts.
fn apart(parts: Vec<Vec<usize>>, stays: &FixedServers) -> Vec<Vec<usize>> {
    let mut first: HashMap<usize, usize> = HashMap::new();
    let mut kept = Vec::with_capacity(parts.len());
    for (number, part) in parts.into_iter().enumerate() {
        let keeps = |server: &usize| match stays.unit_of.get(server) {
            None => true,
            Some(None) => false,
            Some(Some(unit)) => *first.entry(*unit).or_insert(number) == number,
        };
        kept.push(part.into_iter().filter(keeps).collect());
    }
    kept
}

/// Those do not count who stay in a unit with somebody else who stays.
fn alone(servers: Vec<usize>, stays: &FixedServers) -> Vec<usize> {
    let members: HashSet<usize> = servers.iter().copied().collect();
    let mut own: HashMap<usize, usize> = HashMap::new();
    for unit in members.iter().filter_map(|server| *stays.unit_of.get(server)?) {
        *own.entry(unit).or_insert(0) += 1;
    }
    let is_own = |unit: &usize| own.get(unit) == stays.in_unit.get(unit);
    let keeps = |server: &usize| match stays.unit_of.get(server) {
        None => true,
        Some(unit) => unit.is_some_and(|unit| is_own(&unit)),
    };
    servers.into_iter().filter(keeps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::Level;

    const HOST: Level = Level::Host;

    fn stays(at: &[(usize, usize)]) -> FixedServers {
        at.iter().map(|(server, unit)| (*server, Some(*unit))).collect()
    }

    #[test]
    fn what_nobody_breaks_stays_as_it_is() {
        let stays = stays(&[(0, 5), (1, 5), (2, 6)]);
        for rule in [
            Rule::Together(HOST, vec![0, 1, 9]),
            Rule::Apart(HOST, vec![vec![0], vec![2], vec![9]]),
            Rule::Alone(HOST, vec![2, 9]),
        ] {
            assert_eq!(without_broken(rule.clone(), &stays), rule);
        }
    }

    #[test]
    fn who_has_gone_elsewhere_does_not_count() {
        let stays = stays(&[(0, 5), (1, 5), (2, 6)]);
        let left = |rule| without_broken(rule, &stays);
        assert_eq!(
            left(Rule::Together(HOST, vec![0, 1, 2, 9])),
            Rule::Together(HOST, vec![0, 1, 9])
        );
        assert_eq!(
            left(Rule::Apart(HOST, vec![vec![0], vec![1], vec![9]])),
            Rule::Apart(HOST, vec![vec![0], vec![], vec![9]])
        );
        assert_eq!(left(Rule::Alone(HOST, vec![0, 2])), Rule::Alone(HOST, vec![2]));
    }
}
