//! Units: the hosts, racks and clusters that rules are about, numbered from 0.

use std::collections::HashMap;
use std::hash::Hash;

use crate::solver::problem::{Host, Level};

/// The unit of each host at each level, and the hosts of each unit.
#[derive(Clone, Debug)]
pub(in crate::solver) struct Units {
    hosts: LevelUnits,
    racks: LevelUnits,
    clusters: LevelUnits,
}

/// The units of one level.
#[derive(Clone, Debug, Default)]
struct LevelUnits {
    of: Vec<Option<usize>>,
    hosts: Vec<Vec<usize>>,
}

impl Units {
    pub(in crate::solver) fn of(hosts: &[Host]) -> Self {
        Self {
            hosts: LevelUnits::of((0..hosts.len()).map(Some)),
            racks: LevelUnits::of(hosts.iter().map(|host| host.rack)),
            clusters: LevelUnits::of(hosts.iter().map(|host| host.cluster)),
        }
    }

    /// The unit that a host is in; `None` if that is not known.
    pub(in crate::solver) fn unit(&self, level: Level, host: usize) -> Option<usize> {
        self.at(level).of.get(host).copied().flatten()
    }

    /// The hosts of a unit.
    pub(in crate::solver) fn hosts(&self, level: Level, unit: usize) -> &[usize] {
        self.at(level).hosts.get(unit).map_or(&[], Vec::as_slice)
    }

    /// The number of units.
    pub(in crate::solver) fn count(&self, level: Level) -> usize {
        self.at(level).hosts.len()
    }

    fn at(&self, level: Level) -> &LevelUnits {
        match level {
            Level::Host => &self.hosts,
            Level::Rack => &self.racks,
            Level::Cluster => &self.clusters,
        }
    }
}

impl LevelUnits {
    fn of<N: Eq + Hash>(names: impl Iterator<Item = Option<N>>) -> Self {
        let mut known: HashMap<N, usize> = HashMap::new();
        let mut units = Self::default();
        for (host, name) in names.enumerate() {
            let unit = name.map(|name| {
                let next = known.len();
                *known.entry(name).or_insert(next)
            });
            units.of.push(unit);
            match unit.and_then(|unit| units.hosts.get_mut(unit)) {
                Some(hosts) => hosts.push(host),
                None if unit.is_some() => units.hosts.push(vec![host]),
                None => {}
            }
        }
        units
    }
}
