//! How little room hosts can come to that are in few racks, one for each bundle of a diversity.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts and racks are numbered densely")]

use super::budget::Budget;
use super::problem::Level;
use super::state::State;

/// Hosts that are looked for at the most.
const HOSTS_MAX: usize = 200;
/// Racks that they may be in at the most.
const RACKS_MAX: usize = 4;
/// There are not that many hosts.
pub(super) const NONE: u64 = u64::MAX;

/// For so many racks and so many hosts in them, how little room those come to, whichever racks they
/// are.
#[derive(Clone, Debug, Default)]
pub(super) struct RackFitTable(pub(super) Vec<Vec<u64>>);

impl RackFitTable {
    /// Of hosts where one of these kinds can be, before anything has been placed, and that count.
    pub(super) fn of(
        state: &State<'_>,
        kinds: &[usize],
        counts: impl Fn(usize) -> bool,
        budget: &mut Budget<'_>,
    ) -> Self {
        let model = state.model;
        let hosts: usize = kinds.iter().map(|kind| model.kinds[*kind].bundles.len()).sum();
        if !(2..=HOSTS_MAX).contains(&hosts) {
            return Self::default();
        }
        let mut one = vec![NONE; hosts + 1];
        for rack in 0..model.units.count(Level::Rack) {
            let all = model.units.hosts(Level::Rack, rack);
            if budget.is_spent_after(all.len() * (4 + kinds.len())) {
                return Self::default();
            }
            let open = all.iter().copied().filter(|host| counts(*host));
            for (least, sum) in one.iter_mut().zip(sums(state, kinds, open, hosts)) {
                *least = sum.min(*least);
            }
        }
        let mut racks = vec![one.clone()];
        while let (true, Some(last)) = (racks.len() < RACKS_MAX, racks.last()) {
            budget.is_spent_after(hosts * hosts);
            let more = (0..=hosts).map(|hosts| together(last, &one, hosts)).collect();
            racks.push(more);
        }
        Self(racks)
    }
}

/// How little room so many hosts come to, of these that are open to one of these kinds: from none to
/// as many as there are.
pub(super) fn sums(
    state: &State<'_>,
    kinds: &[usize],
    hosts: impl Iterator<Item = usize>,
    most: usize,
) -> Vec<u64> {
    let is_open = |host: &usize| kinds.iter().any(|kind| state.domains.is_open(*kind, *host));
    let fit_costs = hosts.filter(is_open).map(|host| state.model.fit_costs[host]);
    let mut fit_costs: Vec<u64> = fit_costs.collect();
    fit_costs.sort_unstable();
    fit_costs.truncate(most);
    let sums = fit_costs.into_iter().scan(0, |sum, cost| {
        *sum += cost;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

/// How little so many come to, some of one and some of the other.
pub(super) fn together(one: &[u64], other: &[u64], count: usize) -> u64 {
    let split = (0..=count).filter_map(|of_one| {
        let one = one.get(of_one).filter(|sum| **sum != NONE)?;
        let other = other.get(count - of_one).filter(|sum| **sum != NONE)?;
        Some(one + other)
    });
    split.min().unwrap_or(NONE)
}
