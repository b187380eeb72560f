//! Units: the hosts, racks and clusters that rules are about, numbered from 0.

use super::{Host, Level};

/// The unit of each host at each level.
#[derive(Clone, Debug)]
pub(super) struct Units {
    racks: Vec<Option<usize>>,
    clusters: Vec<Option<usize>>,
    counts: [usize; 3],
}

impl Units {
    pub(super) fn of(hosts: &[Host]) -> Self {
        let (racks, rack_count) = numbered(hosts.iter().map(|host| host.rack));
        let (clusters, cluster_count) = numbered(hosts.iter().map(|host| host.cluster));
        Self { racks, clusters, counts: [hosts.len(), rack_count, cluster_count] }
    }

    /// The unit that a host is in; `None` if that is not known.
    pub(super) fn unit(&self, level: Level, host: usize) -> Option<usize> {
        match level {
            Level::Host => Some(host),
            Level::Rack => self.racks.get(host).copied().flatten(),
            Level::Cluster => self.clusters.get(host).copied().flatten(),
        }
    }

    /// How many there are.
    pub(super) fn count(&self, level: Level) -> usize {
        let [hosts, racks, clusters] = self.counts;
        match level {
            Level::Host => hosts,
            Level::Rack => racks,
            Level::Cluster => clusters,
        }
    }
}

fn numbered(names: impl Iterator<Item = Option<u32>>) -> (Vec<Option<usize>>, usize) {
    let mut known: Vec<u32> = Vec::new();
    let mut number = |name: u32| {
        known.iter().position(|it| *it == name).unwrap_or_else(|| {
            known.push(name);
            known.len() - 1
        })
    };
    let units: Vec<_> = names.map(|name| name.map(&mut number)).collect();
    (units, known.len())
}
