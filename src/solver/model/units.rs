//! Units: the hosts, racks and clusters that rules are about, numbered from 0.

use std::collections::HashMap;

use crate::solver::problem::{Host, Level};

/// The unit of each host at each level, and the hosts of each unit.
#[derive(Clone, Debug)]
pub(in crate::solver) struct Units {
    hosts: Vec<usize>,
    racks: Named,
    clusters: Named,
}

/// The units of one level that hosts name: racks or clusters.
#[derive(Clone, Debug, Default)]
struct Named {
    of: Vec<Option<usize>>,
    hosts: Vec<Vec<usize>>,
}

impl Units {
    pub(in crate::solver) fn of(hosts: &[Host]) -> Self {
        Self {
            hosts: (0..hosts.len()).collect(),
            racks: Named::of(hosts.iter().map(|host| host.rack)),
            clusters: Named::of(hosts.iter().map(|host| host.cluster)),
        }
    }

    /// The unit that a host is in; `None` if that is not known.
    pub(in crate::solver) fn unit(&self, level: Level, host: usize) -> Option<usize> {
        match level {
            Level::Host => Some(host),
            Level::Rack => self.racks.of.get(host).copied().flatten(),
            Level::Cluster => self.clusters.of.get(host).copied().flatten(),
        }
    }

    /// The rack of each host.
    pub(in crate::solver) fn racks(&self) -> &[Option<usize>] {
        &self.racks.of
    }

    /// The hosts of a unit.
    pub(in crate::solver) fn hosts(&self, level: Level, unit: usize) -> &[usize] {
        let hosts = match level {
            Level::Host => self.hosts.get(unit..=unit),
            Level::Rack => self.racks.hosts.get(unit).map(Vec::as_slice),
            Level::Cluster => self.clusters.hosts.get(unit).map(Vec::as_slice),
        };
        hosts.unwrap_or_default()
    }

    /// The number of units.
    pub(in crate::solver) fn count(&self, level: Level) -> usize {
        match level {
            Level::Host => self.hosts.len(),
            Level::Rack => self.racks.hosts.len(),
            Level::Cluster => self.clusters.hosts.len(),
        }
    }
}

impl Named {
    fn of(names: impl Iterator<Item = Option<u32>>) -> Self {
        let mut known: HashMap<u32, usize> = HashMap::new();
        let mut units = Self::default();
        for (host, name) in names.enumerate() {
            let unit = name.map(|name| {
                let next = known.len();
                *known.entry(name).or_insert(next)
            });
            units.of.push(unit);
            let Some(unit) = unit else { continue };
            if unit == units.hosts.len() {
                units.hosts.push(Vec::new());
            }
            if let Some(hosts) = units.hosts.get_mut(unit) {
                hosts.push(host);
            }
        }
        units
    }
}
