//! The bound for spreading: the most even counts for which there is room, and then fit.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts and units are numbered densely")]

use super::fit::{UsableHosts, fit_bound};
use super::levelled::levelled;
use super::limits::Limits;
use super::lower_bound::{Bound, SumBounds};
use super::room::slots_by_unit;
use crate::solver::budget::Budget;
use crate::solver::solution::{Cost, Counts};
use crate::solver::state::State;

/// Completes the bound, given its component for moves; `None` if the servers have no room.
pub(super) fn bound(
    state: &State<'_>,
    limits: &Limits,
    mut least: Cost,
    best: Option<&Cost>,
    budget: &mut Budget<'_>,
) -> Option<Bound> {
    least.per_unit = counts(state, 0, budget)?;
    if best.is_some_and(|best| best.per_unit != least.per_unit) {
        return Some(Bound { least, soft_rules: None, rest: SumBounds::Unknown });
    }
    let of_hosts = state.model.counted.len() - 1;
    if of_hosts > 0 {
        least.per_host = counts(state, of_hosts, budget)?;
        if best.is_some_and(|best| best.per_host != least.per_host) {
            return Some(Bound { least, soft_rules: None, rest: SumBounds::Unknown });
        }
    }
    let per_host = if of_hosts > 0 { &least.per_host } else { &least.per_unit };
    let most = per_host.most();
    let more = |host: usize| {
        let unit = state.model.counted[of_hosts].unit(host);
        let more = most.saturating_sub(state.score.servers(of_hosts, unit));
        usize::try_from(more).unwrap_or(usize::MAX)
    };
    let all = all_on_cheapest(state, per_host, budget);
    let usable = UsableHosts { is_usable: &|_| true, most: &more, more_units: None };
    let fit = fit_bound(state, limits, usable, budget);
    let rest = fit.map_or(SumBounds::Unknown, SumBounds::Fit);
    if let SumBounds::Fit(fit) = &rest {
        least.fit += fit.all();
    }
    least.fit = least.fit.max(all);
    Some(Bound { least, soft_rules: None, rest })
}

/// The most even counts at a level, given the room of each unit for further servers.
fn counts(state: &State<'_>, level: usize, budget: &mut Budget<'_>) -> Option<Counts> {
    let model = state.model;
    let counted = &model.counted[level];
    let mut units: Vec<(u64, u64)> =
        (0..counted.count()).map(|unit| (state.score.servers(level, unit), 0)).collect();
    let mut left = 0;
    let mut slots = vec![0_usize; units.len()];
    for (kind, bundles) in state.unplaced_kinds() {
        let servers = model.kinds[kind].servers;
        left += bundles as u64 * servers;
        if budget.is_spent_after(4 * model.problem.hosts.len()) {
            break;
        }
        slots_by_unit(state, kind, |host| Some(counted.unit(host)), &mut slots);
        let is_apart = level == 0 && model.kinds[kind].is_apart(model.problem.policy.level);
        let most = if is_apart { 1 } else { bundles };
        for ((_, room), slots) in units.iter_mut().zip(&slots) {
            *room += (*slots).min(most) as u64 * servers;
        }
    }
    budget.is_spent_after(64 * units.len());
    if budget.is_spent() {
        return Some(Counts::default());
    }
    let even = Counts::of(levelled(&units, left)?);
    // No placement has less than a unit for each bundle.
    let sizes = model.kinds.iter().flat_map(|it| std::iter::repeat_n(it.servers, it.bundles.len()));
    budget.is_spent_after(16 * model.bundles.len());
    Some(even.max(Counts::of(sizes)))
}

/// A lower bound on the fit of all servers, if hosts have these counts: the largest count is on the
/// cheapest host, and so on.
fn all_on_cheapest(state: &State<'_>, counts: &Counts, budget: &mut Budget<'_>) -> u64 {
    let model = state.model;
    let has_servers = |host: &usize| !state.is_untouched(*host);
    let is_open =
        |host: &usize| state.unplaced_kinds().any(|(kind, _)| state.domains.is_open(kind, *host));
    let mut all = 0;
    let mut counts = counts.descending();
    for host in &model.hosts_by_fit_cost {
        if budget.is_spent_after(1 + state.unplaced.len()) {
            return 0;
        }
        if has_servers(host) || is_open(host) {
            let Some(count) = counts.next() else { break };
            all += model.fit_costs[*host] * count;
        }
    }
    all
}
