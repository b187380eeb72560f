//! The cost of a placement.

use super::problem::PlacementProblem;

/// The cost of a placement. Costs are compared lexicographically: the first component that differs
/// decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Servers that are not on the host they were on.
    pub moved: u64,
    /// Hosts that were not in use before. With spreading: servers minus such hosts.
    pub new_hosts: u64,
    /// Racks with a server of the problem. With spreading: servers minus racks.
    pub racks: u64,
    /// Best fit: the sum, over all servers, of the free capacity that the server's host had before the
    /// placement, in thousandths of the host with the most, summed over resource classes. With
    /// spreading: the capacity it lacked.
    pub fit: u64,
}

/// The largest share of [`Cost::fit`] that one resource class of one server can have.
const FIT_COST_MAX: u64 = 1000;

/// What one server on each host adds to [`Cost::fit`].
pub(super) fn fit_costs(problem: &PlacementProblem) -> Vec<u64> {
    let classes = problem.hosts.iter().map(|host| host.free.len()).max().unwrap_or(0);
    let most: Vec<u64> = (0..classes)
        .map(|class| problem.hosts.iter().filter_map(|host| host.free.get(class)).max().copied())
        .map(|most| most.unwrap_or(0).max(1))
        .collect();
    let thousandths = |free: u64, most: u64| {
        u64::try_from(u128::from(free) * u128::from(FIT_COST_MAX) / u128::from(most))
            .unwrap_or(FIT_COST_MAX)
    };
    let total = FIT_COST_MAX * u64::try_from(classes).unwrap_or(0);
    let fit_cost = |free: &[u64]| -> u64 {
        let free = free.iter().zip(&most).map(|(free, most)| thousandths(*free, *most)).sum();
        if problem.spread { total.saturating_sub(free) } else { free }
    };
    problem.hosts.iter().map(|host| fit_cost(&host.free)).collect()
}
