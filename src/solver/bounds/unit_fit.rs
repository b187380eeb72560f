//! Lower bounds on the fit costs of distinct hosts in a number of racks or clusters, one host for each bundle
//! of a diversity rule.
//!
//! *Example.* Rack 1 has hosts that cost 1 and 9, rack 2 hosts that cost 2 and 3. One rack: one
//! host costs at least 1, two hosts at least 5 (rack 2). Two racks: two hosts cost at least 1 + 1 =
//! 2, because the table lets a rack count twice; the true minimum is 3.

#![expect(clippy::indexing_slicing, reason = "kinds and hosts are numbered densely")]

use crate::solver::budget::Budget;
use crate::solver::counted::CountedUnits;
use crate::solver::state::State;

/// The maximum number of hosts that a table covers.
const HOSTS_MAX: usize = 200;
/// The maximum number of units that a table covers.
const UNITS_MAX: usize = 4;
/// The entry if there are not enough hosts.
pub(super) const NONE: u64 = u64::MAX;

/// By number of units (less one) and number of hosts: a lower bound on the sum of the hosts' fit
/// costs, for any choice of units.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitFitTable(pub(super) Vec<Vec<u64>>);

impl UnitFitTable {
    /// Computes the table for the hosts that count and are open to one of these kinds, before anything is placed.
    pub(super) fn of(
        state: &State<'_>,
        units: &CountedUnits,
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
        for unit in 0..units.count() {
            let all = units.hosts(unit);
            if budget.is_spent_after(all.len() * (4 + kinds.len())) {
                return Self::default();
            }
            let open = all.iter().copied().filter(|host| counts(*host));
            for (least, sum) in one.iter_mut().zip(sums(state, kinds, open, hosts)) {
                *least = sum.min(*least);
            }
        }
        let mut tables = vec![one.clone()];
        while let (true, Some(last)) = (tables.len() < UNITS_MAX, tables.last()) {
            budget.is_spent_after(hosts * hosts);
            let more = (0..=hosts).map(|hosts| together(last, &one, hosts)).collect();
            tables.push(more);
        }
        Self(tables)
    }
}

/// The sums of the fit costs of the cheapest 0, 1, 2, ... of these hosts that are open to one of
/// these kinds.
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

/// The minimum sum of `count` hosts, some from one list of sums and the rest from the other.
pub(super) fn together(one: &[u64], other: &[u64], count: usize) -> u64 {
    let split = (0..=count).filter_map(|of_one| {
        let one = one.get(of_one).filter(|sum| **sum != NONE)?;
        let other = other.get(count - of_one).filter(|sum| **sum != NONE)?;
        Some(one + other)
    });
    split.min().unwrap_or(NONE)
}
