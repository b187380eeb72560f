//! The bound for packing: new hosts, after racks or clusters if the policy packs those, and then fit.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts, units and rules are numbered densely")]

use super::fit::{UsableHosts, fit_bound};
use super::limits::{ByUnit, Limits, Offers};
use super::lower_bound::{Bound, SumBounds};
use super::parts::{apart, parts_without_unit};
use crate::solver::budget::Budget;
use crate::solver::counted::CountedUnits;
use crate::solver::problem::Rule;
use crate::solver::solution::Cost;
use crate::solver::state::State;

/// Completes the bound, given its component for moves and the hosts that must come into use.
pub(super) fn bound(
    state: &State<'_>,
    limits: &Limits,
    (mut least, best, new_hosts): (Cost, Option<&Cost>, u64),
    budget: &mut Budget<'_>,
) -> Bound {
    let Some(counted) = state.model.packed() else {
        least.new_hosts += new_hosts;
        if best.is_some_and(|best| best.new_hosts != least.new_hosts) {
            return Bound { least, soft_rules: None, rest: SumBounds::Unknown };
        }
        let is_usable = |host: usize| new_hosts > 0 || state.domains.is_in_use(host);
        return with_fit(state, limits, least, usable_hosts(&is_usable, None), budget);
    };
    let units = OpenUnits::of(state, counted, |_| true, budget).units(state, &limits.all, budget);
    let units = units.max(units_of_quotas(state, counted, budget));
    least.units += units;
    if best.is_some_and(|best| best.units != least.units) {
        return Bound { least, soft_rules: None, rest: SumBounds::Unknown };
    }
    let in_use = OpenUnits::of(state, counted, |host| state.domains.is_in_use(host), budget);
    let new_hosts = new_hosts.max(in_use.new_hosts(state, limits, units, budget));
    least.new_hosts += new_hosts;
    if best.is_some_and(|best| best.new_hosts != least.new_hosts) {
        return Bound { least, soft_rules: None, rest: SumBounds::Unknown };
    }
    let is_open = |host: usize| units > 0 || state.score.servers(0, counted.unit(host)) > 0;
    let is_usable = |host: usize| is_open(host) && (new_hosts > 0 || state.domains.is_in_use(host));
    let more_units = Some((units, new_hosts == 0)).filter(|_| units > 0);
    with_fit(state, limits, least, usable_hosts(&is_usable, more_units), budget)
}

fn usable_hosts(
    is_usable: &dyn Fn(usize) -> bool,
    more_units: Option<(u64, bool)>,
) -> UsableHosts<'_> {
    UsableHosts { is_usable, most: &|_| usize::MAX, more_units }
}

/// Adds the bound on the fit. If the bundles do not fit on the hosts that are usable while the components before
/// meet their bounds, the last of these bounds is raised.
fn with_fit(
    state: &State<'_>,
    limits: &Limits,
    mut least: Cost,
    usable: UsableHosts<'_>,
    budget: &mut Budget<'_>,
) -> Bound {
    let fit = fit_bound(state, limits, usable, budget);
    let rest = if let Some(fit) = fit {
        least.fit += fit.all();
        SumBounds::Fit(fit)
    } else {
        least.new_hosts += 1;
        SumBounds::Unknown
    };
    Bound { least, soft_rules: None, rest }
}

/// Upper bounds on the offers of hosts in open units.
struct OpenUnits {
    free: Vec<u128>,
    slots: Vec<u128>,
    parts: Vec<u128>,
}

impl OpenUnits {
    fn of(
        state: &State<'_>,
        counted: &CountedUnits,
        is_usable: impl Fn(usize) -> bool,
        budget: &mut Budget<'_>,
    ) -> Self {
        let model = state.model;
        let mut known = Self {
            free: vec![0; model.sizes.classes],
            slots: vec![0; model.kinds.len()],
            parts: vec![0; model.problem.rules.len()],
        };
        for unit in state.score.open_units(0) {
            let hosts = counted.hosts(*unit);
            if budget.is_spent_after(1 + hosts.len()) {
                break;
            }
            let usable = hosts.iter().copied().filter(|host| is_usable(*host));
            known.add(state, &usable.collect::<Vec<usize>>(), budget);
        }
        known
    }

    fn add(&mut self, state: &State<'_>, hosts: &[usize], budget: &mut Budget<'_>) {
        let counted = state.model.problem.policy.level;
        budget.is_spent_after(hosts.len() * (1 + self.free.len()));
        for host in hosts {
            for (sum, free) in self.free.iter_mut().zip(&state.own_left[*host]) {
                *sum += free;
            }
        }
        for (kind, _) in state.unplaced_kinds() {
            if budget.is_spent_after(1 + hosts.len()) {
                return;
            }
            let open = hosts.iter().filter(|host| state.domains.is_open(kind, **host));
            let slots: usize = open.map(|host| state.domains.slots(kind, *host)).sum();
            let is_apart = state.model.kinds[kind].is_apart(counted);
            self.slots[kind] += if is_apart { slots.min(1) } else { slots } as u128;
        }
        for (rule, level) in apart(state) {
            let bound = &state.model.kinds_of_rule[rule];
            if budget.is_spent_after(1 + hosts.len() * bound.len()) {
                return;
            }
            let can_be =
                |host: &&usize| bound.iter().any(|(it, _)| state.domains.is_open(*it, **host));
            let parts = hosts.iter().filter(can_be).count();
            let is_apart = level == counted;
            self.parts[rule] += if is_apart { parts.min(1) } else { parts } as u128;
        }
    }

    /// A lower bound on the number of units that must be opened.
    fn units(&self, state: &State<'_>, limits: &Offers, budget: &mut Budget<'_>) -> u64 {
        let work = 2 + state.score.open_units(0).len();
        let mut needed = 0;
        for (class, known) in self.free.iter().enumerate() {
            needed = needed.max(units(state, &limits.free[class], state.needed[class], *known));
        }
        for (kind, left) in state.unplaced_kinds() {
            if budget.is_spent_after(work) {
                return needed;
            }
            needed = needed.max(units(state, &limits.slots[kind], left as u128, self.slots[kind]));
        }
        for (rule, level) in apart(state) {
            if budget.is_spent_after(work + state.model.kinds_of_rule[rule].len()) {
                return needed;
            }
            let left = state.unstarted[rule] as u128;
            needed = needed.max(units(state, &limits.parts[rule], left, self.parts[rule]));
            if level == state.model.problem.policy.level {
                let known = |kind: usize| usize::try_from(self.slots[kind]).unwrap_or(usize::MAX);
                needed = needed.max(parts_without_unit(state, rule, known) as u64);
            }
        }
        needed
    }
}

impl OpenUnits {
    /// A lower bound on the number of hosts that must come into use if no more than `units` further units are
    /// opened. The hosts in use are those in open units.
    fn new_hosts(
        &self,
        state: &State<'_>,
        limits: &Limits,
        units: u64,
        budget: &mut Budget<'_>,
    ) -> u64 {
        let units = usize::try_from(units).unwrap_or(usize::MAX);
        let more = |limits: &ByUnit| untouched(state, limits).take(units).sum::<u128>();
        let mut needed = 0;
        for (kind, left) in state.unplaced_kinds() {
            let offers = &limits.in_use.slots[kind];
            if budget.is_spent_after(2 + offers.len()) {
                return needed;
            }
            let missing = (left as u128).saturating_sub(self.slots[kind] + more(offers));
            let hosts = missing.div_ceil(limits.most_on_new[kind].max(1) as u128);
            needed = needed.max(u64::try_from(hosts).unwrap_or(u64::MAX));
        }
        for (class, free) in limits.new_hosts.iter().enumerate() {
            let offers = &limits.in_use.free[class];
            if budget.is_spent_after(2 + offers.len()) {
                return needed;
            }
            let missing = state.needed[class].saturating_sub(self.free[class] + more(offers));
            if missing > 0 {
                needed = needed.max(free.partition_point(|sum| *sum < missing) as u64 + 1);
            }
        }
        needed
    }
}

/// A lower bound on the number of units that must be opened because rules limit the servers in each, or distribute them
/// evenly over them.
fn units_of_quotas(state: &State<'_>, counted: &CountedUnits, budget: &mut Budget<'_>) -> u64 {
    let model = state.model;
    let level = model.problem.policy.level;
    let is_open = |unit: usize| {
        let host = model.units.hosts(level, unit).first();
        host.is_some_and(|host| state.score.servers(0, counted.unit(*host)) > 0)
    };
    let mut needed = 0;
    let mut quotas = model.quotas.iter().zip(&state.quota_counts);
    while let Some((quota, counts)) = quotas.next().filter(|_| !budget.is_spent()) {
        if quota.level != level {
            continue;
        }
        budget.is_spent_after(4 * counts.len());
        let left = quota.servers.saturating_sub(counts.iter().sum());
        // Units for those that find no place in open ones, if each takes at most so many.
        let further = |most: u64| {
            let open = counts.iter().enumerate().filter(|(unit, _)| is_open(*unit));
            let room: u64 = open.map(|(_, count)| most.saturating_sub(*count)).sum();
            left.saturating_sub(room).div_ceil(most.max(1))
        };
        needed = needed.max(further(quota.most));
        if let Rule::Skew(skew) = &model.problem.rules[quota.rule]
            && skew.absent == 0
        {
            // Either all domains have servers, or none has more than it may have more than an empty one.
            let most = u64::from(skew.most);
            let untouched = quota.domains.iter().filter(|domain| !is_open(**domain)).count() as u64;
            let is_all = counts.iter().any(|count| *count > most);
            needed = needed.max(if is_all { untouched } else { untouched.min(further(most)) });
        }
    }
    needed
}

/// The untouched units, largest offers first.
fn untouched(state: &State<'_>, limits: &ByUnit) -> impl Iterator<Item = u128> {
    let is_untouched = |unit: usize| state.score.servers(0, unit) == 0;
    limits.iter().filter(move |(_, unit)| is_untouched(*unit)).map(|(offer, _)| *offer)
}

/// The number of untouched units needed for the missing amount, if the largest are taken first.
fn units(state: &State<'_>, limits: &ByUnit, needed: u128, known: u128) -> u64 {
    let mut missing = needed.saturating_sub(known);
    let mut units = 0;
    let mut others = untouched(state, limits);
    while missing > 0 {
        units += 1;
        missing = missing.saturating_sub(others.next().unwrap_or(missing));
    }
    units
}
