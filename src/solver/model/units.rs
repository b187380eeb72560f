//! Units: the hosts, racks and clusters that rules refer to, numbered from 0.

use std::collections::HashMap;
use std::hash::Hash;

use crate::solver::problem::{Host, Level};

/// The unit of each host at each level, and the hosts of each unit.
#[derive(Clone, Debug)]
pub(in crate::solver) struct Units {
    /// Each host is a unit of its own.
    hosts: Vec<usize>,
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
            hosts: (0..hosts.len()).collect(),
            racks: LevelUnits::of(hosts.iter().map(|host| host.rack)),
            clusters: LevelUnits::of(hosts.iter().map(|host| host.cluster)),
        }
    }

    /// The unit of a host; `None` if it is unknown.
    pub(in crate::solver) fn unit(&self, level: Level, host: usize) -> Option<usize> {
        match self.at(level) {
            None => self.hosts.get(host).copied(),
            Some(units) => units.of.get(host).copied().flatten(),
        }
    }

    /// The hosts of a unit.
    pub(in crate::solver) fn hosts(&self, level: Level, unit: usize) -> &[usize] {
        let hosts = match self.at(level) {
            None => self.hosts.get(unit..=unit),
            Some(units) => units.hosts.get(unit).map(Vec::as_slice),
        };
        hosts.unwrap_or_default()
    }

    /// The number of units.
    pub(in crate::solver) fn count(&self, level: Level) -> usize {
        self.at(level).map_or(self.hosts.len(), |units| units.hosts.len())
    }

    /// The units of a level; `None` for hosts.
    fn at(&self, level: Level) -> Option<&LevelUnits> {
        match level {
            Level::Host => None,
            Level::Rack => Some(&self.racks),
            Level::Cluster => Some(&self.clusters),
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
