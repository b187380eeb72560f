//! Lower bounds on the fit costs of distinct hosts in a given number of racks, one host for each bundle
//! of a diversity rule.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts and racks are numbered densely")]

use crate::solver::budget::Budget;
use crate::solver::problem::Level;
use crate::solver::state::State;

/// The most hosts that a table covers.
const HOSTS_MAX: usize = 200;
/// The most racks that a table covers.
const RACKS_MAX: usize = 4;
/// Stands for: there are not that many hosts.
pub(super) const NONE: u64 = u64::MAX;

/// For a number of racks and a number of hosts in them, a lower bound on the sum of their fit costs,
/// whichever racks they are.
#[derive(Clone, Debug, Default)]
pub(super) struct RackFitTable(pub(super) Vec<Vec<u64>>);

impl RackFitTable {
    /// The table of the hosts that count and are open to one of these kinds before anything has been
    /// placed.
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

/// The sums of the fit costs of the cheapest 0, 1, 2, … of these hosts that are open to one of these
/// kinds.
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

/// The least sum of `count` hosts, some from one list of sums and the rest from the other.
pub(super) fn together(one: &[u64], other: &[u64], count: usize) -> u64 {
    let split = (0..=count).filter_map(|of_one| {
        let one = one.get(of_one).filter(|sum| **sum != NONE)?;
        let other = other.get(count - of_one).filter(|sum| **sum != NONE)?;
        Some(one + other)
    });
    split.min().unwrap_or(NONE)
}
