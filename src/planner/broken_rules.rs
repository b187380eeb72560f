//! Relaxes rules that fixed servers already break. The cloud decides where instances are, and a plan whose rules
//! are broken must still be able to grow. So a rule does not count for the fixed servers that break it; it still
//! binds all other servers.
//!
//! Example: an affinity group has fixed servers A and B on one host, and C has been migrated elsewhere. A new
//! member D has to join A and B; C does not count.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::solver::{Rule, Skew};

/// The units of the fixed servers.
#[derive(Debug, Default)]
pub(super) struct FixedServers {
    /// The unit of each fixed server; `None` if it is in no known unit. Servers that may move are missing.
    unit_of: HashMap<usize, Option<usize>>,
    /// Number of fixed servers in each unit.
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

/// Removes the fixed servers that break a rule from the rule.
pub(super) fn without_broken(rule: Rule, stays: &FixedServers) -> Rule {
    match rule {
        Rule::Together(level, servers) => Rule::Together(level, together(servers, stays)),
        Rule::Apart(level, parts) => Rule::Apart(level, apart(parts, stays)),
        Rule::Alone(level, servers) => Rule::Alone(level, alone(servers, stays)),
        Rule::AtMost(level, most, servers) => {
            Rule::AtMost(level, most, at_most(servers, u64::from(most), stays))
        }
        Rule::Skew(skew) => {
            let servers = at_most(skew.servers.clone(), fullest(&skew, stays), stays);
            Rule::Skew(Skew { servers, ..skew })
        }
    }
}

/// Returns those of the servers that a rule does not bind.
pub(super) fn dropped(servers: Vec<usize>, rule: &Rule) -> Vec<usize> {
    let kept: HashSet<usize> = rule.parts().iter().flatten().copied().collect();
    servers.into_iter().filter(|server| !kept.contains(server)).collect()
}

/// Maximum per unit: of the fixed servers in a unit, no more count than allowed, and so no other may join them.
fn at_most(servers: Vec<usize>, most: u64, stays: &FixedServers) -> Vec<usize> {
    let mut counts: HashMap<usize, u64> = HashMap::new();
    let keeps = |server: &usize| match stays.unit_of.get(server) {
        None => true,
        Some(None) => false,
        Some(Some(unit)) => {
            let count = counts.entry(*unit).or_insert(0);
            *count += 1;
            *count <= most
        }
    };
    servers.into_iter().filter(keeps).collect()
}

/// The maximum number of servers in the fullest domain if the movable ones fill the emptiest domains. If the
/// domains are unknown, they are the units with fixed servers.
fn fullest(skew: &Skew, stays: &FixedServers) -> u64 {
    let mut counts: BTreeMap<usize, u64> = skew.domains.iter().map(|unit| (*unit, 0)).collect();
    let mut free = 0;
    for server in &skew.servers {
        match stays.unit_of.get(server) {
            None => free += 1,
            Some(None) => {}
            Some(Some(unit)) => *counts.entry(*unit).or_insert(0) += 1,
        }
    }
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable();
    // The level to which the emptiest domains can be filled.
    let mut level = counts.first().copied().unwrap_or(0);
    let mut filled = 0_u64;
    for step in counts.iter().skip(1).copied().chain([u64::MAX]) {
        filled += 1;
        let rise = (step - level).min(free / filled);
        level += rise;
        free -= rise * filled;
        if level < step {
            break;
        }
    }
    level + u64::from(skew.most)
}

/// Affinity: fixed servers count only in the unit that has most of them.
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

/// Diversity: of the parts with fixed servers in one unit, the first counts.
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

/// Exclusivity: fixed servers do not count if a fixed server of others is in their unit.
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
    use crate::model::Level;

    const HOST: Level = Level::Host;

    fn stays(at: &[(usize, usize)]) -> FixedServers {
        at.iter().map(|(server, unit)| (*server, Some(*unit))).collect()
    }

    #[test]
    fn rules_that_are_kept_change_nothing() {
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
    fn departed_servers_do_not_count() {
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
        assert_eq!(
            left(Rule::AtMost(HOST, 1, vec![0, 1, 2, 9])),
            Rule::AtMost(HOST, 1, vec![0, 2, 9])
        );
    }

    #[test]
    fn an_even_distribution_begins_where_the_fixed_servers_are() {
        let fixed = stays(&[(0, 5), (1, 5), (2, 5), (3, 5), (4, 6)]);
        let skew = |domains: &[usize], servers: &[usize]| Skew {
            level: HOST,
            most: 1,
            servers: servers.to_vec(),
            domains: domains.to_vec(),
            absent: 0,
        };
        // Domain 7 is empty, and remains so without further servers.
        for (domains, servers, most) in [
            (&[5, 6, 7][..], &[0, 1, 2, 3, 4][..], 1),
            (&[5, 6, 7], &[0, 1, 2, 3, 4, 9], 2),
            (&[5, 6, 7], &[0, 1, 2, 3, 4, 9, 10, 11], 3),
            (&[5, 6, 7], &[0, 1, 2, 3, 4, 9, 10, 11, 12, 13, 14, 15], 5),
            (&[5, 6], &[0, 1, 2, 3, 4], 2),
            (&[], &[0, 1, 2, 3, 4], 2),
            (&[5], &[0, 1, 2, 3], 5),
        ] {
            assert_eq!(fullest(&skew(domains, servers), &fixed), most, "{domains:?} {servers:?}");
        }
        let kept = without_broken(Rule::Skew(skew(&[5, 6, 7], &[0, 1, 2, 3, 4, 9])), &fixed);
        assert_eq!(kept, Rule::Skew(skew(&[5, 6, 7], &[0, 1, 4, 9])));
    }
}
