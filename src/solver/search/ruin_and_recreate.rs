//! Ruin and recreate: removes the bundles of a few hosts, or some others, and puts each of them on
//! the best host again, one after the other and without a way back.
//!
//! A step costs little: no bound is computed and no branch is explored. So there are thousands of
//! steps in the time in which branch and bound explores one neighbourhood. In exchange a step proves
//! nothing. A step that makes the placement a little dearer is accepted now and then, less and less
//! often (simulated annealing).

#![expect(clippy::indexing_slicing, reason = "bundles, kinds and hosts are numbered densely")]

use std::cmp::Reverse;

use super::branch_and_bound::BranchAndBound;
use super::preference::preference;
use super::random::Random;
use crate::solver::bounds::Limits;
use crate::solver::budget::Budget;
use crate::solver::model::Model;
use crate::solver::problem::{Goal, Level};
use crate::solver::solution::Cost;
use crate::solver::state::State;

/// The hosts whose bundles are removed in one step, at most.
const HOSTS_MAX: u64 = 4;
/// The number of bundles that are removed in one step, at most.
const BUNDLES_MAX: usize = 24;
/// Of so many hosts that would be the best, one is passed over at random.
const PASSED_OVER: u64 = 40;

/// The same of the hosts that the Lagrangian bound prefers.
const PASSED_OVER_PREFERRED: u64 = 8;

/// The number of variants that are tried on a host.
const VARIANTS_MAX: usize = 16;
/// The number of hosts in the list of each kind: so many for each bundle of the problem, within limits.
const LISTED_FOR_EACH: usize = 4;
const LISTED_MIN: usize = 256;
const LISTED_MAX: usize = 2048;
/// One insertion in so many looks at all hosts instead of those in the list.
const LOOKS_AT_ALL: u64 = 16;

/// For each kind, the hosts in use that are open to it, before anything is placed, in the order of
/// their fit. As long as one of those in the list is open, no other host in use is better.
struct Lists(Vec<Vec<usize>>);

impl Lists {
    /// The lists of an empty state. With other policies than packing hosts they are empty, because the
    /// best host does not follow from the order of fit.
    fn of(state: &State<'_>, budget: &mut Budget<'_>) -> Self {
        let model = state.model;
        let policy = model.problem.policy;
        let most = listed_for_kind(model);
        let mut lists = vec![Vec::new(); model.kinds.len()];
        if policy.goal == Goal::Pack && policy.level == Level::Host {
            for (kind, list) in lists.iter_mut().enumerate() {
                if budget.is_spent_after(model.problem.hosts.len()) {
                    break;
                }
                let hosts = model.hosts_by_fit_cost.iter().copied();
                let is_listed = |host: &usize| {
                    model.problem.hosts[*host].in_use && state.domains.is_open(kind, *host)
                };
                list.extend(hosts.filter(is_listed).take(most));
                budget.is_spent_with(list.len());
            }
        }
        Self(lists)
    }
}

/// The hosts in the list of one kind, at most.
fn listed_for_kind(model: &Model<'_>) -> usize {
    (LISTED_FOR_EACH * model.bundles.len()).clamp(LISTED_MIN, LISTED_MAX)
}

/// The memory of the lists of all kinds, at most, in the units of the budget.
pub(super) fn listed_max(model: &Model<'_>) -> usize {
    model.kinds.len() * listed_for_kind(model).min(model.problem.hosts.len())
}

/// How long a placement is improved, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) steps: u64,
    /// The seed of the pseudo-random numbers.
    pub(super) seed: u64,
    /// At first, a placement may become dearer by what a server costs on average, divided by this.
    pub(super) coolness: u64,
}

/// Where bundles can be put.
struct Places<'l> {
    limits: &'l Limits,
    lists: &'l Lists,
    /// By kind, the hosts that the Lagrangian bound prefers, the best first.
    preferred: Option<&'l [Vec<usize>]>,
}

/// A placement that may lack some bundles. Those that are missing count most.
#[derive(Clone, Debug)]
struct Kept {
    missing: usize,
    cost: Cost,
    positions: Vec<Option<(usize, usize)>>,
}

/// Improves the best placement, or looks for the first one, in so many steps, until it reaches the
/// target or the budget is spent. Without steps it only tries to put each bundle on the best host. The
/// state is empty before and after, unless the budget is spent.
pub(super) fn ruin_and_recreate(
    search: &mut BranchAndBound<'_>,
    state: &mut State<'_>,
    limits: &Limits,
    Schedule { steps, seed, coolness }: Schedule,
    budget: &mut Budget<'_>,
) {
    let mut random = Random::new(seed);
    let kept = budget.kept();
    let lists = Lists::of(state, budget);
    let preferred = search.preferred();
    let places =
        Places { limits, lists: &lists, preferred: preferred.as_deref().map(Vec::as_slice) };
    let mut current = begin(search, state, &places, budget);
    // What a host costs a server on average. A placement may become so much dearer at first, or less.
    let servers = state.model.problem.servers.len().max(1) as u64;
    let warmest = current.cost.fit / servers / coolness.max(1);
    for step in 0..steps {
        search.take_over(budget);
        if budget.is_spent() || search.has_reached_target() {
            break;
        }
        let part = part(state, &mut random, budget);
        for bundle in &part {
            state.take_back(*bundle, budget);
        }
        recreate(state, &places, part, &mut random, budget);
        if budget.is_spent() {
            return;
        }
        let heat = warmest * (steps - step) / steps;
        let slack = heat * random.below(1 << 10) as u64 / (1 << 10);
        let found = keep(state);
        if is_accepted(&found, &current, slack) {
            if found.missing == 0 {
                search.record(state, budget);
            }
            current = found;
        } else {
            restore(state, &current, budget);
        }
    }
    budget.release_to(kept);
    if budget.is_spent() {
        return;
    }
    for bundle in 0..state.positions.len() {
        state.take_back(bundle, budget);
    }
}

/// The best placement, or else one that puts each bundle on the best host in the order of their size.
fn begin(
    search: &mut BranchAndBound<'_>,
    state: &mut State<'_>,
    places: &Places<'_>,
    budget: &mut Budget<'_>,
) -> Kept {
    if let Some(best) = &search.best {
        for (bundle, position) in best.positions.iter().enumerate() {
            if budget.is_spent() || !state.place(bundle, *position, budget) {
                break;
            }
        }
        return keep(state);
    }
    let mut all: Vec<usize> = (0..state.positions.len()).collect();
    sort_by_weight(state, &mut all);
    for bundle in all {
        if !budget.is_spent() {
            insert(state, places, bundle, None, budget);
        }
    }
    let found = keep(state);
    if found.missing == 0 && !budget.is_spent() {
        search.record(state, budget);
    }
    found
}

fn keep(state: &State<'_>) -> Kept {
    let positions = state.positions.clone();
    let missing = positions.iter().filter(|it| it.is_none()).count();
    let cost = if missing == 0 { state.cost() } else { state.partial_cost() };
    Kept { missing, cost, positions }
}

/// Whether a placement replaces the current one, which may have so much less fit.
fn is_accepted(found: &Kept, current: &Kept, slack: u64) -> bool {
    let limit = Cost { fit: current.cost.fit.saturating_add(slack), ..current.cost.clone() };
    (found.missing, &found.cost) <= (current.missing, &limit)
}

/// Changes the placement back to one that is kept.
fn restore(state: &mut State<'_>, kept: &Kept, budget: &mut Budget<'_>) {
    let changed: Vec<usize> = (0..state.positions.len())
        .filter(|bundle| state.positions[*bundle] != kept.positions[*bundle])
        .collect();
    for bundle in &changed {
        state.take_back(*bundle, budget);
    }
    for bundle in changed {
        if let (Some(position), false) = (kept.positions[bundle], budget.is_spent()) {
            state.place(bundle, position, budget);
        }
    }
}

/// The bundles to remove: those of some hosts near to each other, or some at random; and those that
/// have no host.
fn part(state: &State<'_>, random: &mut Random, budget: &mut Budget<'_>) -> Vec<usize> {
    let count = state.positions.len();
    budget.is_spent_after(6 * count);
    let is_missing = |bundle: &usize| state.positions[*bundle].is_none();
    let mut part: Vec<usize> = (0..count).filter(is_missing).collect();
    let host = |bundle: usize| state.positions[bundle].map(|(host, _)| host);
    let rack = |bundle: usize| host(bundle).and_then(|it| state.model.units.unit(Level::Rack, it));
    let seed = random.below(count as u64);
    let mut chosen: Vec<usize> = Vec::new();
    match random.below(8) {
        // A rack.
        0 => chosen.extend((0..count).filter(|it| rack(*it) == rack(seed))),
        // Bundles of the kind.
        1 => {
            let kind = state.model.bundles[seed].kind;
            chosen.extend(&state.model.kinds[kind].bundles);
        }
        // Any.
        2 => chosen.extend((0..2 + random.below(10)).map(|_| random.below(count as u64))),
        nth => {
            let mut hosts = vec![host(seed)];
            for _ in 0..=random.below(HOSTS_MAX) {
                // Half of the time in the same rack.
                let tries = (0..8).map(|_| random.below(count as u64));
                let mut others: Vec<usize> = tries.collect();
                if nth.is_multiple_of(2) {
                    others.sort_by_key(|it| rack(*it) != rack(seed));
                }
                hosts.extend(others.first().map(|it| host(*it)));
            }
            chosen.extend((0..count).filter(|it| hosts.contains(&host(*it))));
        }
    }
    while chosen.len() > BUNDLES_MAX {
        let at = random.below(chosen.len() as u64);
        chosen.swap_remove(at);
    }
    part.extend(chosen);
    part.sort_unstable();
    part.dedup();
    part
}

/// Puts bundles on the best hosts, in an order that differs from step to step.
fn recreate(
    state: &mut State<'_>,
    places: &Places<'_>,
    mut part: Vec<usize>,
    random: &mut Random,
    budget: &mut Budget<'_>,
) {
    for at in (1..part.len()).rev() {
        part.swap(at, random.below(at as u64 + 1));
    }
    match random.below(3) {
        0 => {}
        1 => part
            .sort_by_key(|bundle| state.domains.of_kind(state.model.bundles[*bundle].kind).hosts),
        _ => sort_by_weight(state, &mut part),
    }
    for bundle in part {
        if budget.is_spent() {
            return;
        }
        insert(state, places, bundle, Some(random), budget);
    }
}

fn sort_by_weight(state: &State<'_>, part: &mut [usize]) {
    part.sort_by_key(|bundle| Reverse(state.model.kinds[state.model.bundles[*bundle].kind].weight));
}

/// Puts a bundle on the host that adds the least cost, if there is one. With `random`, some hosts are
/// passed over.
fn insert(
    state: &mut State<'_>,
    places: &Places<'_>,
    bundle: usize,
    mut random: Option<&mut Random>,
    budget: &mut Budget<'_>,
) {
    let kind = state.model.bundles[bundle].kind;
    if let (Some(preferred), Some(random)) = (places.preferred, &mut random)
        && random.below(2) == 0
    {
        budget.is_spent_after(2 * preferred[kind].len());
        let open = preferred[kind].iter().filter(|host| state.domains.is_open(kind, **host));
        let mut open = open.filter(|_| random.below(PASSED_OVER_PREFERRED) > 0);
        if let Some(host) = open.next().copied()
            && state.place(bundle, (host, 0), budget)
        {
            return;
        }
    }
    let looks_at_all = random.as_mut().is_some_and(|random| random.below(LOOKS_AT_ALL) == 0);
    let listed = if looks_at_all { &[] } else { places.lists.0[kind].as_slice() };
    let best = best_of(state, places.limits, kind, listed, random.as_deref_mut(), budget);
    let best = best.or_else(|| {
        let all = &state.model.hosts_by_fit_cost;
        best_of(state, places.limits, kind, all, random, budget)
    });
    let Some(host) = best else { return };
    let load = &state.model.loads[state.model.kinds[kind].load];
    let variants = state.model.sizes.variants(load, host);
    for variant in 0..variants.min(VARIANTS_MAX) {
        if budget.is_spent() || state.place(bundle, (host, variant), budget) {
            return;
        }
    }
}

/// Of hosts in the order of fit, the one that is open to a kind and adds the least cost.
fn best_of(
    state: &State<'_>,
    limits: &Limits,
    kind: usize,
    hosts: &[usize],
    mut random: Option<&mut Random>,
    budget: &mut Budget<'_>,
) -> Option<usize> {
    let mut best = None;
    let mut looked_at = 0;
    for host in hosts {
        looked_at += 1;
        if !state.domains.is_open(kind, *host) {
            continue;
        }
        looked_at += 4;
        if random.as_mut().is_some_and(|random| random.below(PASSED_OVER) == 0) {
            continue;
        }
        let added = state.added(kind, *host);
        let key = preference(state, limits, *host, added);
        if best.is_none_or(|(least, _)| key < least) {
            best = Some((key, *host));
        }
        // The hosts that follow have at least this fit.
        if (added.moved, added.first, added.second) == (0, 0, 0) {
            break;
        }
    }
    budget.is_spent_after(looked_at);
    best.map(|(_, host)| host)
}
