//! The units that placement policies and soft rules count.

#![expect(clippy::indexing_slicing, reason = "hosts and units are numbered densely")]

use std::collections::HashMap;

use super::problem::{Goal, Host, Level, PlacementPolicy, PlacementProblem};

/// The units of a level, numbered from 0. Every host is in one.
///
/// If the rack or cluster of hosts is unknown, the worst case is assumed: that all such hosts are in one unit if
/// servers are to be spread, and otherwise that each is in a unit of its own.
#[derive(Clone, Debug)]
pub(super) struct CountedUnits {
    of: Vec<usize>,
    hosts: Vec<Vec<usize>>,
}

impl CountedUnits {
    /// The units at each level that the policy of a problem counts: first those of its own level,
    /// then hosts, if servers are also to be distributed over the hosts within those units.
    pub(super) fn of_policy(problem: &PlacementProblem) -> Vec<Self> {
        let PlacementPolicy { goal, level } = problem.policy;
        let levels: &[Level] = match (goal, level) {
            (Goal::Pack, Level::Host) => &[],
            (Goal::Pack, _) | (_, Level::Host) => &[level],
            (Goal::Spread | Goal::Balance, _) => &[level, Level::Host],
        };
        let hosts = &problem.hosts;
        let of_level = |level: &Level| Self::of_level(hosts, *level, goal == Goal::Spread);
        levels.iter().map(of_level).collect()
    }

    /// Numbers the units of a level. `is_one`: whether all hosts whose unit is unknown are in one.
    pub(super) fn of_level(hosts: &[Host], level: Level, is_one: bool) -> Self {
        let mut known: HashMap<(bool, usize), usize> = HashMap::new();
        let mut units = Self { of: Vec::with_capacity(hosts.len()), hosts: Vec::new() };
        for (nth, host) in hosts.iter().enumerate() {
            let name = match level {
                Level::Host => None,
                Level::Rack => host.rack,
                Level::Cluster => host.cluster,
            };
            let unknown = if is_one && level > Level::Host { usize::MAX } else { nth };
            let key = name.map_or((false, unknown), |name| (true, name as usize));
            let next = known.len();
            let unit = *known.entry(key).or_insert(next);
            units.of.push(unit);
            if unit == next {
                units.hosts.push(vec![nth]);
            } else {
                units.hosts[unit].push(nth);
            }
        }
        units
    }

    /// The unit of a host.
    pub(super) fn unit(&self, host: usize) -> usize {
        self.of[host]
    }

    /// The hosts of a unit.
    pub(super) fn hosts(&self, unit: usize) -> &[usize] {
        &self.hosts[unit]
    }

    /// The number of units.
    pub(super) fn count(&self) -> usize {
        self.hosts.len()
    }
}
