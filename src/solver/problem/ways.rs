//! Pools, the ways in which a server draws on them on each host, and the hosts that it may be on.
//!
//! *Example.* A host has two NUMA nodes with 8 VCPU each, pools 0 and 1. A server of 4 VCPU has two
//! ways there: `Way([(0, 4)])` and `Way([(1, 4)])`.

use std::sync::Arc;

/// The free capacity of one resource class on one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// The dense number of the resource class.
    pub class: usize,
    /// The free amount, in the units of the inventory.
    pub free: u64,
}

/// The draws of a server that is put on a host in this way: pools, by their position in
/// [`PlacementProblem::pools`](super::PlacementProblem::pools), and amounts. A pool that does not
/// exist has nothing free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Way(pub Vec<(usize, u64)>);

impl Way {
    /// Whether the pools have enough for one server alone.
    pub(in crate::solver) fn fits_in(&self, pools: &[Pool]) -> bool {
        self.0.iter().all(|(pool, amount)| {
            let drawn = self.0.iter().filter(|(other, _)| other == pool);
            let drawn = drawn.fold(0_u64, |sum, (_, amount)| sum.saturating_add(*amount));
            *amount == 0 || drawn <= pools.get(*pool).map_or(0, |pool| pool.free)
        })
    }
}

/// For each host, the ways in which a server of one size can be put there. Only hosts with ways
/// take memory, and clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// The hosts with their ways, ascending.
    at: Arc<Vec<(usize, Vec<Way>)>>,
    /// A host whose ways differ from those in `at`.
    here: Option<(usize, Vec<Way>)>,
}

impl Ways {
    /// The ways of a server that has to stay on its host, where it draws nothing.
    pub fn staying_on(host: usize) -> Self {
        Self { at: Arc::default(), here: Some((host, vec![Way::default()])) }
    }

    /// These ways, and before them the way of staying on one host without drawing anything.
    #[must_use]
    pub fn or_staying_on(&self, host: usize) -> Self {
        let stay = std::iter::once(Way::default());
        let here = stay.chain(self.on(host).iter().cloned()).collect();
        Self { at: Arc::clone(&self.at), here: Some((host, here)) }
    }

    /// The ways on a host.
    pub fn on(&self, host: usize) -> &[Way] {
        if let Some((_, ways)) = self.here.as_ref().filter(|(here, _)| *here == host) {
            return ways;
        }
        let at = self.at.binary_search_by_key(&host, |(host, _)| *host);
        at.ok().and_then(|at| self.at.get(at)).map_or(&[], |(_, ways)| ways.as_slice())
    }

    /// The number of hosts with ways, or one more than that.
    pub fn hosts(&self) -> usize {
        self.at.len() + usize::from(self.here.is_some())
    }

    /// The hosts with ways, ascending.
    pub fn by_host(&self) -> impl Iterator<Item = (usize, &[Way])> {
        let own = self.here.as_ref().map(|(host, ways)| (*host, ways.as_slice()));
        let from = own
            .map_or(self.at.len(), |(host, _)| self.at.partition_point(|(other, _)| *other < host));
        let (before, after) = self.at.split_at(from);
        let after = after.iter().filter(move |(host, _)| own.is_none_or(|(own, _)| own != *host));
        before.iter().map(pair).chain(own).chain(after.map(pair))
    }
}

fn pair((host, ways): &(usize, Vec<Way>)) -> (usize, &[Way]) {
    (*host, ways.as_slice())
}

/// From the ways on each host, in the order of the hosts.
impl FromIterator<Vec<Way>> for Ways {
    fn from_iter<T: IntoIterator<Item = Vec<Way>>>(hosts: T) -> Self {
        let hosts = hosts.into_iter().enumerate().filter(|(_, ways)| !ways.is_empty());
        Self { at: Arc::new(hosts.collect()), here: None }
    }
}

impl From<Vec<Vec<Way>>> for Ways {
    fn from(hosts: Vec<Vec<Way>>) -> Self {
        hosts.into_iter().collect()
    }
}

/// The hosts that a server may be on, for reasons other than capacity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AllowedHosts {
    /// This host only.
    Only(usize),
    /// The hosts whose entry is true, by position.
    These(Arc<[bool]>),
}

impl AllowedHosts {
    /// Whether a host is allowed.
    pub fn has(&self, host: usize) -> bool {
        match self {
            Self::Only(only) => *only == host,
            Self::These(these) => these.get(host).is_some_and(|may| *may),
        }
    }

    /// The allowed hosts, ascending.
    pub fn hosts(&self) -> impl Iterator<Item = usize> {
        let (from, to) = match self {
            Self::Only(only) => (*only, *only + 1),
            Self::These(these) => (0, these.len()),
        };
        (from..to).filter(|host| self.has(*host))
    }
}

impl Default for AllowedHosts {
    fn default() -> Self {
        Self::These(Arc::default())
    }
}

impl FromIterator<bool> for AllowedHosts {
    fn from_iter<T: IntoIterator<Item = bool>>(hosts: T) -> Self {
        Self::These(hosts.into_iter().collect())
    }
}

impl From<Vec<bool>> for AllowedHosts {
    fn from(hosts: Vec<bool>) -> Self {
        Self::These(hosts.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Way, Ways};

    fn way(pool: usize) -> Vec<Way> {
        vec![Way(vec![(pool, 1)])]
    }

    #[test]
    fn who_may_stay_has_one_more_way_and_shares_the_rest() {
        let ways: Ways = vec![way(0), Vec::new(), way(2)].into();
        for (host, expected) in [(0, 2), (1, 1), (2, 2), (9, 1)] {
            let with = ways.or_staying_on(host);
            assert_eq!(with.on(host).len(), expected);
            assert_eq!(with.on(host)[0], Way::default());
            let hosts: Vec<usize> = with.by_host().map(|(host, _)| host).collect();
            let mut all = vec![0, 2, host];
            all.sort_unstable();
            all.dedup();
            assert_eq!(hosts, all);
            assert!(with.by_host().all(|(host, ways)| ways == with.on(host)));
        }
        assert_eq!(Ways::staying_on(3).by_host().map(|(host, _)| host).collect::<Vec<_>>(), [3]);
        assert_eq!(ways.on(1), []);
    }
}
