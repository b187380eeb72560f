//! Checks whether the remaining servers of the rules that count servers have room.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts, units and quotas are numbered densely")]

use super::room::slots_by_unit;
use crate::solver::budget::Budget;
use crate::solver::model::Quota;
use crate::solver::problem::{Level, Rule};
use crate::solver::state::State;

/// Returns whether the units have too little room for the servers of a rule, or too few servers are left to
/// distribute them evenly.
pub(super) fn exceeds_quotas(state: &State<'_>, budget: &mut Budget<'_>) -> bool {
    let model = state.model;
    model.quotas.iter().enumerate().any(|(nth, quota)| {
        let counts = &state.quota_counts[nth];
        let left = quota.servers - counts.iter().sum::<u64>();
        budget.is_spent_after(counts.len() + 2 * quota.kinds.len());
        match &model.problem.rules[quota.rule] {
            Rule::Skew(skew) => {
                let room = room(state, nth, quota, budget);
                let of_domain = quota.domains.iter().map(|domain| counts[*domain]);
                let all = of_domain.clone().sum::<u64>() + left;
                let average = all.div_ceil((quota.domains.len() as u64).max(1));
                // The fullest domain will have at least the average.
                let average = average.min(all);
                let fullest = of_domain.clone().max().unwrap_or(0);
                let fullest = if skew.absent == 0 { fullest.max(average) } else { fullest };
                let least = fullest.saturating_sub(u64::from(skew.most));
                let missing = of_domain.clone().map(|count| least.saturating_sub(count));
                let beyond = quota.domains.iter().zip(missing.clone());
                let beyond: u64 =
                    beyond.map(|(domain, missing)| missing.saturating_sub(room[*domain])).sum();
                missing.sum::<u64>() > left + u64::from(skew.absent)
                    || beyond > u64::from(skew.absent)
                    || room.iter().sum::<u64>() < left
            }
            Rule::AtMost(..) => {
                let is_plenty = |(kind, members): &(usize, u64)| {
                    state.domains.of_kind(*kind).hosts as u64 * members >= left
                };
                let is_simple = quota.kinds.len() == 1 && quota.kinds.iter().all(is_plenty);
                let is_simple = is_simple && quota.level == Level::Host;
                left > 0 && !is_simple && room(state, nth, quota, budget).iter().sum::<u64>() < left
            }
            Rule::Together(..) | Rule::Apart(..) | Rule::Alone(..) => false,
        }
    })
}

/// The room of each unit for further servers of a quota, as an upper bound.
fn room(state: &State<'_>, nth: usize, quota: &Quota, budget: &mut Budget<'_>) -> Vec<u64> {
    let model = state.model;
    let counts = &state.quota_counts[nth];
    let mut room = vec![0_u64; counts.len()];
    let mut slots = vec![0_usize; counts.len()];
    for (kind, members) in &quota.kinds {
        let left = state.unplaced[*kind].len();
        if left == 0 || budget.is_spent_after(2 * model.problem.hosts.len()) {
            continue;
        }
        slots_by_unit(state, *kind, |host| model.units.unit(quota.level, host), &mut slots);
        for (room, slots) in room.iter_mut().zip(&slots) {
            *room += (*slots).min(left) as u64 * members;
        }
    }
    let most = counts.iter().map(|count| quota.most.saturating_sub(*count));
    room.into_iter().zip(most).map(|(room, most)| room.min(most)).collect()
}
