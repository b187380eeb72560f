//! Ruin and recreate: removes the bundles of a few hosts, or some others, and puts each of them on the best host
//! again, one after the other, without backtracking.
//!
//! A step costs little: no bound is computed and no branch is explored. So there are thousands of steps in the time
//! in which branch and bound explores one neighbourhood. In exchange a step proves nothing. A step that makes the
//! placement a little more expensive is accepted occasionally, ever less often (simulated annealing).

#![expect(clippy::indexing_slicing, reason = "bundles, kinds and hosts are numbered densely")]

use std::cmp::Reverse;

use super::affinity::{AffinityRules, UnitForRule};
use super::branch_and_bound::BranchAndBound;
use super::incumbent::Preferred;
use super::preference::{Preference, preference};
use super::random::Random;
use crate::solver::bounds::Limits;
use crate::solver::budget::Budget;
use crate::solver::model::Model;
use crate::solver::problem::{Goal, Level};
use crate::solver::solution::Cost;
use crate::solver::state::{Added, State};

/// Maximum number of hosts whose bundles are removed in one step.
const HOSTS_MAX: u64 = 4;
/// Maximum number of bundles that are removed in one step.
const BUNDLES_MAX: usize = 24;
/// One in this many hosts that would be the best is passed over at random.
const PASSED_OVER: u64 = 40;

/// The same for the hosts that the Lagrangian bound prefers.
const PASSED_OVER_PREFERRED: u64 = 8;

/// Number of variants that are tried on a host.
const VARIANTS_MAX: usize = 16;
/// Number of hosts in the list of each kind for each bundle of the problem, within limits.
const LISTED_FOR_EACH: usize = 4;
const LISTED_MIN: usize = 256;
const LISTED_MAX: usize = 2048;
/// One in this many insertions examines all hosts instead of those in the list.
const LOOKS_AT_ALL: u64 = 16;

/// For each kind, the hosts in use that are open to it, before anything is placed, in the order of their fit. While
/// one of those in the list is open, no other host in use is better.
struct Lists(Vec<Vec<usize>>);

impl Lists {
    /// Creates the lists of an empty state. With other policies than packing hosts they are empty, because the best
    /// host does not follow from the order of fit.
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

/// Maximum number of hosts in the list of one kind.
fn listed_for_kind(model: &Model<'_>) -> usize {
    (LISTED_FOR_EACH * model.bundles.len()).clamp(LISTED_MIN, LISTED_MAX)
}

/// Maximum memory for the lists of all kinds, in the units of the budget.
pub(super) fn listed_max(model: &Model<'_>) -> usize {
    model.kinds.len() * listed_for_kind(model).min(model.problem.hosts.len())
}

/// The parameters of an improvement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) steps: u64,
    /// The seed of the pseudo-random numbers.
    pub(super) seed: u64,
    /// Divisor of the average cost of a server for the initial tolerance of a higher cost.
    pub(super) coolness: u64,
}

/// The hosts for bundles.
enum Places<'l> {
    /// On all hosts.
    Anywhere {
        lists: Lists,
        /// By kind, the hosts that the Lagrangian bound prefers, the best first.
        preferred: Option<Preferred>,
    },
    /// On these hosts only. The cost of being the first bundle in a unit does not count.
    Only(&'l SomeHosts),
}

/// A subset of the hosts.
pub(super) struct SomeHosts {
    /// In the order of their fit.
    pub(super) hosts: Vec<usize>,
    /// For each host of the problem, whether it is one of them.
    pub(super) is_among: Vec<bool>,
    /// By kind, the hosts that the Lagrangian bound prefers, including others than these, the best first.
    pub(super) preferred: Option<Preferred>,
}

/// For each bundle, its host and variant, if it has one.
pub(super) type Positions = Vec<Option<(usize, usize)>>;

/// The sort key of a host for a bundle that adds this cost there.
type HostKey<'k> = &'k dyn Fn(&State<'_>, usize, Added) -> Preference;

/// A placement that may lack some bundles. Its missing bundles count most.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    missing: usize,
    cost: Cost,
    positions: Positions,
}

impl Kept {
    /// Whether every bundle has a host.
    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// The bundles' positions.
    pub(super) fn into_positions(self) -> Positions {
        self.positions
    }

    /// Returns whether it is better than another one.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        (self.missing, &self.cost) < (other.missing, &other.cost)
    }
}

/// Improves the best placement, or searches for the first one, in `steps` steps, until it reaches the target or the
/// budget is spent. Without steps it only tries to put each bundle on the best host. The state is empty before and
/// after, unless the budget is spent.
pub(super) fn ruin_and_recreate(
    search: &mut BranchAndBound<'_>,
    state: &mut State<'_>,
    schedule: Schedule,
    budget: &mut Budget<'_>,
) {
    let kept = budget.kept();
    let lists = Lists::of(state, budget);
    let places = Places::Anywhere { lists, preferred: search.preferred() };
    let start = search.best.as_ref().map(|best| best.positions.iter().copied().map(Some).collect());
    improve(search, state, &places, (start, schedule), budget);
    budget.release_to(kept);
}

/// Improves a placement, or a part of one, in the same way, but puts bundles only on some hosts. Returns the last
/// placement, or `None` if the budget is spent.
pub(super) fn ruin_and_recreate_on(
    hosts: &SomeHosts,
    search: &mut BranchAndBound<'_>,
    state: &mut State<'_>,
    (start, schedule): (Positions, Schedule),
    budget: &mut Budget<'_>,
) -> Option<Kept> {
    improve(search, state, &Places::Only(hosts), (Some(start), schedule), budget)
}

/// Improves a placement in `steps` steps. The state is empty before and after, unless the budget is spent.
fn improve(
    search: &mut BranchAndBound<'_>,
    state: &mut State<'_>,
    places: &Places<'_>,
    (start, schedule): (Option<Positions>, Schedule),
    budget: &mut Budget<'_>,
) -> Option<Kept> {
    let Schedule { steps, seed, coolness } = schedule;
    let mut random = Random::new(seed);
    let mut current = start_with(search, state, places, start, budget);
    // The average cost of a host for a server. A placement may cost at most this much more at first, and less
    // later.
    let servers = state.model.problem.servers.len().max(1) as u64;
    let warmest = current.cost.fit / servers / coolness.max(1);
    let is_anywhere = matches!(places, Places::Anywhere { .. });
    let rules = is_anywhere.then(|| AffinityRules::of(state.model));
    for step in 0..steps {
        search.take_over(budget);
        if budget.is_spent() || search.has_reached_target() {
            break;
        }
        let moved = rules.as_ref().and_then(|rules| rules.unit_for_one(state, &mut random));
        let mut part = match &moved {
            Some(moved) => moved.part(state, BUNDLES_MAX, &mut random, budget),
            None => part(state, &mut random, budget),
        };
        for bundle in &part {
            state.take_back(*bundle, budget);
        }
        if let Some(moved) = &moved {
            place_in_unit(search.limits, state, moved, &mut part, budget);
        }
        recreate(search.limits, state, places, part, &mut random, budget);
        if budget.is_spent() {
            return None;
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
    if budget.is_spent() {
        return None;
    }
    for bundle in 0..state.positions.len() {
        state.take_back(bundle, budget);
    }
    Some(current)
}

/// Starts with a placement, even an incomplete one. Puts each bundle without a host on the best one, in the order
/// of their size.
fn start_with(
    search: &mut BranchAndBound<'_>,
    state: &mut State<'_>,
    places: &Places<'_>,
    start: Option<Positions>,
    budget: &mut Budget<'_>,
) -> Kept {
    for (bundle, position) in start.into_iter().flatten().enumerate() {
        if let Some(position) = position
            && (budget.is_spent() || !state.place(bundle, position, budget))
        {
            break;
        }
    }
    let all = 0..state.positions.len();
    let mut missing: Vec<usize> = all.filter(|bundle| state.positions[*bundle].is_none()).collect();
    sort_by_weight(state, &mut missing);
    for bundle in missing {
        if !budget.is_spent() {
            insert(search.limits, state, places, bundle, None, budget);
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

/// Returns whether a placement replaces the current one, although its fit may be worse by `slack`.
fn is_accepted(found: &Kept, current: &Kept, slack: u64) -> bool {
    let limit = Cost { fit: current.cost.fit.saturating_add(slack), ..current.cost.clone() };
    (found.missing, &found.cost) <= (current.missing, &limit)
}

/// Changes the placement back to a stored one.
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

/// The bundles to remove: those of some hosts near to each other, or some at random; and those without a host.
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
        // Any bundles.
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
    random.keep_some(&mut chosen, BUNDLES_MAX);
    part.extend(chosen);
    part.sort_unstable();
    part.dedup();
    part
}

/// Puts the largest bundle of an affinity rule on the best host of a unit, so that the others can only follow, and
/// removes it from the list.
fn place_in_unit(
    limits: &Limits,
    state: &mut State<'_>,
    moved: &UnitForRule,
    part: &mut Vec<usize>,
    budget: &mut Budget<'_>,
) {
    let model = state.model;
    let kind = |bundle: usize| model.bundles[bundle].kind;
    let of_rule = part.iter().copied().filter(|bundle| moved.binds(model, *bundle));
    let Some(first) = of_rule.max_by_key(|it| model.kinds[kind(*it)].weight) else { return };
    let hosts = moved.hosts(model, budget);
    let key = |state: &State<'_>, host: usize, added: Added| preference(state, limits, host, added);
    let host = best_of(state, kind(first), &hosts, (&key, None), budget);
    if let Some(host) = host.filter(|_| !budget.is_spent())
        && state.place(first, (host, 0), budget)
    {
        part.retain(|bundle| *bundle != first);
    }
}

/// Puts bundles on the best hosts, in an order that differs from step to step.
fn recreate(
    limits: &Limits,
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
        insert(limits, state, places, bundle, Some(random), budget);
    }
}

fn sort_by_weight(state: &State<'_>, part: &mut [usize]) {
    part.sort_by_key(|bundle| Reverse(state.model.kinds[state.model.bundles[*bundle].kind].weight));
}

/// Puts a bundle on the host that adds the least cost, if there is one. With `random`, some hosts are passed over.
fn insert(
    limits: &Limits,
    state: &mut State<'_>,
    places: &Places<'_>,
    bundle: usize,
    mut random: Option<&mut Random>,
    budget: &mut Budget<'_>,
) {
    let kind = state.model.bundles[bundle].kind;
    let key = |state: &State<'_>, host: usize, added: Added| match places {
        Places::Anywhere { .. } => preference(state, limits, host, added),
        Places::Only(_) => (added.moved, added.violations, 0, added.second, Reverse(0), added.fit),
    };
    let (preferred, among) = match places {
        Places::Anywhere { preferred, .. } => (preferred, None),
        Places::Only(some) => (&some.preferred, Some(some.is_among.as_slice())),
    };
    if let (Some(preferred), Some(random)) = (preferred, &mut random)
        && random.below(2) == 0
        && insert_preferred(state, bundle, (&preferred[kind], among), random, budget)
    {
        return;
    }
    let best = match places {
        Places::Only(some) => best_of(state, kind, &some.hosts, (&key, random), budget),
        Places::Anywhere { lists, .. } => {
            let looks_at_all =
                random.as_mut().is_some_and(|random| random.below(LOOKS_AT_ALL) == 0);
            let listed = if looks_at_all { &[] } else { lists.0[kind].as_slice() };
            let best = best_of(state, kind, listed, (&key, random.as_deref_mut()), budget);
            best.or_else(|| {
                best_of(state, kind, &state.model.hosts_by_fit_cost, (&key, random), budget)
            })
        }
    };
    let Some(host) = best else { return };
    let load = &state.model.loads[state.model.kinds[kind].load];
    let variants = state.model.sizes.variants(load, host);
    for variant in 0..variants.min(VARIANTS_MAX) {
        if budget.is_spent() || state.place(bundle, (host, variant), budget) {
            return;
        }
    }
}

/// Puts a bundle on the first open one of the hosts that the Lagrangian bound prefers, some of which are passed
/// over. Returns whether there was one.
fn insert_preferred(
    state: &mut State<'_>,
    bundle: usize,
    (preferred, among): (&[usize], Option<&[bool]>),
    random: &mut Random,
    budget: &mut Budget<'_>,
) -> bool {
    let kind = state.model.bundles[bundle].kind;
    budget.is_spent_after(2 * preferred.len());
    let is_among = |host: &&usize| among.is_none_or(|among| among[**host]);
    let open = preferred.iter().filter(is_among);
    let open = open.filter(|host| state.domains.is_open(kind, **host));
    let mut open = open.filter(|_| random.below(PASSED_OVER_PREFERRED) > 0);
    let host = open.next().copied();
    host.is_some_and(|host| state.place(bundle, (host, 0), budget))
}

/// The host, among those in the order of fit, that is open to a kind and adds the least cost.
fn best_of(
    state: &State<'_>,
    kind: usize,
    hosts: &[usize],
    (key, mut random): (HostKey<'_>, Option<&mut Random>),
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
        let key = key(state, *host, added);
        if best.is_none_or(|(least, _)| key < least) {
            best = Some((key, *host));
        }
        // The remaining hosts have at least this fit.
        if (key.0, key.1, key.2, key.3) == (0, 0, 0, 0) {
            break;
        }
    }
    budget.is_spent_after(looked_at);
    best.map(|(_, host)| host)
}
