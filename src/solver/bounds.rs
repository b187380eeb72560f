//! A lower bound on the cost of every completion of a partial placement, or the proof that there is
//! none. docs/solver.md derives it.
//!
//! Costs are compared lexicographically, so the bound of each component may assume that the
//! components before it meet their bounds exactly. If no new host is needed, for example, racks and
//! fit are bounded for hosts in use alone: a completion with a new host costs more anyway.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts, racks and rules are numbered densely")]

mod fit;
mod limits;
mod rack_fit;

use self::fit::{FitBound, fit_bound};
pub(super) use self::limits::Limits;
use self::limits::{ByRack, Racks};
use super::budget::Budget;
use super::problem::{Level, Rule};
use super::solution::Cost;
use super::state::State;

/// A lower bound on the cost of placing the remaining bundles as well.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) least: Cost,
    /// The bound on the fit of the remaining bundles, if it was computed.
    pub(super) fit: Option<FitBound>,
}

/// A lower bound on the cost of every completion of a state; `None` if there is provably no
/// completion. Components that cannot affect the comparison with `best` are not computed. The
/// result must not be used once the budget is spent.
pub(super) fn bound(
    state: &State<'_>,
    limits: &Limits,
    best: Option<Cost>,
    budget: &mut Budget<'_>,
) -> Option<Bound> {
    if is_infeasible(state, budget) {
        return None;
    }
    let mut least = state.partial_cost();
    let moves = |(kind, left)| state.fewest_moves(kind) * left as u64;
    least.moved += state.unplaced_kinds().map(moves).sum::<u64>();
    if state.model.problem.spread {
        return Some(spread(state, limits, (least, best), budget));
    }
    if !is_tied(least, best, 1) {
        return Some(Bound { least, fit: None });
    }
    let new_hosts = new_hosts(state, limits, budget)?;
    least.new_hosts += new_hosts;
    if !is_tied(least, best, 2) {
        return Some(Bound { least, fit: None });
    }
    let is_usable = |host: usize| new_hosts > 0 || state.domains.is_in_use(host);
    let of_racks = if new_hosts > 0 { &limits.all } else { &limits.in_use };
    let racks = OpenRacks::of(state, limits, is_usable, budget).racks(state, of_racks, budget);
    least.racks += racks;
    if !is_tied(least, best, 3) {
        return Some(Bound { least, fit: None });
    }
    let rack_of = state.model.units.racks();
    let is_known = |host: usize| rack_of[host].is_none_or(|it| !state.is_rack_untouched(it));
    let more_racks = Some((racks, new_hosts == 0)).filter(|_| racks > 0);
    let is_usable = |host: usize| is_usable(host) && (racks > 0 || is_known(host));
    let fit = fit_bound(state, limits, (more_racks, &is_usable), budget);
    match &fit {
        Some(fit) => least.fit += fit.all(),
        None => least.racks += 1,
    }
    Some(Bound { least, fit })
}

/// The bound for spreading: the best completion has as many hosts and racks as possible.
fn spread(
    state: &State<'_>,
    limits: &Limits,
    (mut most, best): (Cost, Option<Cost>),
    budget: &mut Budget<'_>,
) -> Bound {
    let left: u64 = state.unplaced_kinds().map(|(_, left)| left as u64).sum();
    most.new_hosts += left.min(limits.unused_hosts.saturating_sub(most.new_hosts));
    most.racks += left.min(limits.usable_racks.saturating_sub(most.racks));
    let mut least = state.cost(most);
    if !is_tied(least, best, 3) {
        return Bound { least, fit: None };
    }
    let fit = fit_bound(state, limits, (None, &|_| true), budget);
    least.fit += fit.as_ref().map_or(0, FitBound::all);
    Bound { least, fit }
}

/// Whether the first components of a bound equal those of the best cost, so that the next one
/// matters.
fn is_tied(least: Cost, best: Option<Cost>, parts: usize) -> bool {
    let first = |it: Cost| [it.moved, it.new_hosts, it.racks].into_iter().take(parts);
    best.is_none_or(|best| first(least).eq(first(best)))
}

/// Whether a kind has fewer slots than bundles, or a diversity rule fewer units than parts.
fn is_infeasible(state: &State<'_>, budget: &mut Budget<'_>) -> bool {
    budget.is_spent_after(4 * state.unplaced.len());
    state.unplaced_kinds().any(|(kind, left)| {
        let (domain, it) = (state.domains.of_kind(kind), &state.model.kinds[kind]);
        domain.slots < left
            || it.is_apart(Level::Rack) && domain.racks < left
            || it.is_apart(Level::Cluster) && domain.clusters < left
    }) || apart(state).any(|(rule, level)| {
        let units = |(kind, _): &(usize, _)| {
            let domain = state.domains.of_kind(*kind);
            match level {
                Level::Host => domain.hosts,
                Level::Rack => domain.racks,
                Level::Cluster => domain.clusters,
            }
        };
        let needed = state.unstarted[rule];
        budget.is_spent_after(state.model.kinds_of_rule[rule].len());
        let most = state.model.kinds_of_rule[rule].iter().map(units).max().unwrap_or(0);
        most < needed && missing_units(state, rule, |_| true, budget) > 0
    })
}

/// The diversity rules with unplaced parts, and their levels.
fn apart(state: &State<'_>) -> impl Iterator<Item = (usize, Level)> {
    let rules = state.model.problem.rules.iter().enumerate();
    rules.filter_map(|(number, rule)| match rule {
        Rule::Apart(level, _) if state.unstarted[number] > 0 => Some((number, *level)),
        Rule::Apart(..) | Rule::Together(..) | Rule::Alone(..) => None,
    })
}

/// The number of unplaced parts of a rule beyond the units that have a usable host open to one of
/// them.
fn missing_units(
    state: &State<'_>,
    rule: usize,
    is_usable: impl Fn(usize) -> bool,
    budget: &mut Budget<'_>,
) -> usize {
    let model = state.model;
    let level = model.problem.rules[rule].level();
    let mut missing = state.unstarted[rule];
    let mut seen = vec![false; model.units.count(level)];
    for host in 0..model.problem.hosts.len() {
        if missing == 0 || budget.is_spent_after(2) {
            break;
        }
        let Some(unit) = model.units.unit(level, host).filter(|unit| !seen[*unit]) else {
            continue;
        };
        let can_be = |(kind, _): &(usize, _)| {
            !state.unplaced[*kind].is_empty() && state.domains.is_open(*kind, host)
        };
        if !is_usable(host) {
            continue;
        }
        budget.is_spent_after(model.kinds_of_rule[rule].len());
        if model.kinds_of_rule[rule].iter().any(can_be) {
            seen[unit] = true;
            missing -= 1;
        }
    }
    missing
}

/// The number of unplaced parts of a rule beyond the units of their kinds, summed over the kinds
/// whose bundles are each a part by themselves.
fn parts_without_unit(state: &State<'_>, rule: usize, units: impl Fn(usize) -> usize) -> usize {
    let parts = state.model.kinds_of_rule[rule].iter().filter(|(_, part)| part.is_none());
    parts.map(|(kind, _)| state.unplaced[*kind].len().saturating_sub(units(*kind))).sum()
}

/// A lower bound on the number of further hosts that must come into use; `None` if no number
/// suffices.
fn new_hosts(state: &State<'_>, limits: &Limits, budget: &mut Budget<'_>) -> Option<u64> {
    let mut needed = 0;
    for (kind, left) in state.unplaced_kinds() {
        let missing = left.saturating_sub(state.domains.of_kind(kind).slots_in_use);
        if missing > 0 {
            let most = Some(limits.most_on_new[kind]).filter(|most| *most > 0)?;
            needed = needed.max(missing.div_ceil(most));
        }
    }
    for (class, free) in limits.new_hosts.iter().enumerate() {
        let missing = state.needed[class].saturating_sub(state.free_in_use[class]);
        if missing > 0 {
            let hosts = free.partition_point(|sum| *sum < missing) + 1;
            needed = needed.max(Some(hosts).filter(|hosts| *hosts <= free.len())?);
        }
    }
    for (rule, _) in apart(state) {
        let is_in_use = |host| state.domains.is_in_use(host);
        needed = needed.max(missing_units(state, rule, is_in_use, budget));
        budget.is_spent_after(state.model.kinds_of_rule[rule].len());
        needed = needed
            .max(parts_without_unit(state, rule, |kind| state.domains.of_kind(kind).slots_in_use));
    }
    Some(needed as u64)
}

/// Upper bounds on what hosts in open racks, and hosts without a rack, offer.
struct OpenRacks {
    free: Vec<u128>,
    slots: Vec<u128>,
    parts: Vec<u128>,
}

impl OpenRacks {
    fn of(
        state: &State<'_>,
        limits: &Limits,
        is_usable: impl Fn(usize) -> bool,
        budget: &mut Budget<'_>,
    ) -> Self {
        let model = state.model;
        let mut known = Self {
            free: vec![0; model.sizes.classes],
            slots: vec![0; model.kinds.len()],
            parts: vec![0; model.problem.rules.len()],
        };
        let usable = |hosts: &[usize]| -> Vec<usize> {
            hosts.iter().copied().filter(|host| is_usable(*host)).collect()
        };
        known.add(state, &usable(&limits.without_rack), false, budget);
        for rack in &state.racks {
            if budget.is_spent_after(1) {
                break;
            }
            known.add(state, &usable(model.units.hosts(Level::Rack, *rack)), true, budget);
        }
        known
    }

    fn add(&mut self, state: &State<'_>, hosts: &[usize], is_rack: bool, budget: &mut Budget<'_>) {
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
            let is_apart = is_rack && state.model.kinds[kind].is_apart(Level::Rack);
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
            let is_apart = is_rack && level == Level::Rack;
            self.parts[rule] += if is_apart { parts.min(1) } else { parts } as u128;
        }
    }

    /// A lower bound on the number of racks that must be opened.
    fn racks(&self, state: &State<'_>, limits: &Racks, budget: &mut Budget<'_>) -> u64 {
        let work = 2 + state.racks.len();
        let mut needed = 0;
        for (class, known) in self.free.iter().enumerate() {
            needed = needed.max(racks(state, &limits.free[class], state.needed[class], *known));
        }
        for (kind, left) in state.unplaced_kinds() {
            if budget.is_spent_after(work) {
                return needed;
            }
            needed = needed.max(racks(state, &limits.slots[kind], left as u128, self.slots[kind]));
        }
        for (rule, level) in apart(state) {
            if budget.is_spent_after(work + state.model.kinds_of_rule[rule].len()) {
                return needed;
            }
            let left = state.unstarted[rule] as u128;
            needed = needed.max(racks(state, &limits.parts[rule], left, self.parts[rule]));
            if level == Level::Rack {
                let known = |kind: usize| usize::try_from(self.slots[kind]).unwrap_or(usize::MAX);
                needed = needed.max(parts_without_unit(state, rule, known) as u64);
            }
        }
        needed
    }
}

/// The number of untouched racks that are needed for what is missing, if the largest are taken
/// first.
fn racks(state: &State<'_>, limits: &ByRack, needed: u128, known: u128) -> u64 {
    let mut missing = needed.saturating_sub(known);
    let mut racks = 0;
    let mut others = limits.iter().filter(|(_, rack)| state.is_rack_untouched(*rack));
    while missing > 0 {
        racks += 1;
        missing = missing.saturating_sub(others.next().map_or(missing, |(it, _)| *it));
    }
    racks
}
