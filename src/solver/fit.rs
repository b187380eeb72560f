//! The fit: how full hosts are, or with spreading how empty.

use super::problem::{Goal, PlacementProblem};

/// The maximum contribution of one resource class of one server to
/// [`Cost::fit`](super::solution::Cost::fit).
const FIT_COST_MAX: u64 = 1000;

/// For each host, the contribution of one server there to [`Cost::fit`](super::solution::Cost::fit).
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
        match problem.policy.goal {
            Goal::Pack => free,
            Goal::Spread => total.saturating_sub(free),
            Goal::Balance => 0,
        }
    };
    problem.hosts.iter().map(|host| fit_cost(&host.free)).collect()
}
