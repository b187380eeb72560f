//! A lower bound on the cost of every completion of a partial placement, or the proof that it has no completion.
//! docs/solver.md derives it.
//!
//! Costs are compared lexicographically, so the bound of each component may assume that the components before it
//! meet their bounds exactly. If no new host is needed, for example, fit is bounded for hosts in use alone: a
//! completion with a new host costs more anyway.

#![expect(
    clippy::indexing_slicing,
    reason = "kinds, hosts, classes and rules are numbered densely"
)]

mod fit;
mod joint_load;
mod lagrangian;
mod levelled;
mod limits;
mod load;
mod lower_bound;
mod pack;
mod parts;
mod quotas;
mod room;
mod soft;
mod spread;
mod unit_fit;

pub(super) use self::lagrangian::{Allowance, Effort, FitBoundScaled, Lagrangian, Prices};
pub(super) use self::limits::Limits;
use self::load::{LoadBound, load};
pub(super) use self::lower_bound::{Bound, SumBounds};
use self::parts::{apart, missing_units, parts_without_unit};
use self::quotas::exceeds_quotas;
use self::soft::SoftBound;
use super::budget::Budget;
use super::problem::{Goal, Level};
use super::solution::Cost;
use super::state::State;

/// A lower bound on the cost of every completion of a state; `None` if there is provably no
/// completion. Components that cannot affect the comparison with `best` are not computed. The
/// result must not be used once the budget is spent.
pub(super) fn bound(
    state: &State<'_>,
    limits: &Limits,
    best: Option<&Cost>,
    budget: &mut Budget<'_>,
) -> Option<Bound> {
    let new_hosts = feasible(state, limits, budget)?;
    let mut least = state.partial_cost();
    let moves = |(kind, left)| state.fewest_moves(kind) * left as u64;
    least.moved += state.unplaced_kinds().map(moves).sum::<u64>();
    if best.is_some_and(|best| best.moved != least.moved) {
        return Some(Bound { least, soft_rules: None, rest: SumBounds::Unknown });
    }
    let soft_rules = match best {
        // The placed bundles already cost as much as the best placement.
        Some(best) if best.violations <= least.violations => None,
        Some(_) | None => Some(SoftBound::of(state, budget)?),
    };
    least.violations = soft_rules.as_ref().map_or(least.violations, SoftBound::least);
    if best.is_some_and(|best| best.violations != least.violations) {
        return Some(Bound { least, soft_rules, rest: SumBounds::Unknown });
    }
    let bound = match state.model.problem.policy.goal {
        Goal::Pack => pack::bound(state, limits, (least, best, new_hosts), budget),
        Goal::Spread => spread::bound(state, limits, least, best, budget)?,
        Goal::Balance => balance_bound(state, least, budget),
    };
    Some(Bound { soft_rules, ..bound })
}

/// Completes the bound for balancing, given its components for moves and violations: the load of the policy's units,
/// and that of hosts.
fn balance_bound(state: &State<'_>, mut least: Cost, budget: &mut Budget<'_>) -> Bound {
    let levels = (0..state.model.counted.len()).map(|level| load(state, level, budget));
    let levels: Vec<LoadBound> = levels.collect();
    let of_level = |level: usize| levels.get(level).map_or(0, LoadBound::all);
    least.load = least.load.saturating_add(of_level(0));
    least.host_load = least.host_load.saturating_add(of_level(1));
    Bound { least, soft_rules: None, rest: SumBounds::Load(levels) }
}

/// A lower bound on the number of hosts that must come into use; `None` if there is provably no
/// completion of a state.
pub(super) fn feasible(state: &State<'_>, limits: &Limits, budget: &mut Budget<'_>) -> Option<u64> {
    if is_infeasible(state, budget) || exceeds_quotas(state, budget) {
        None
    } else {
        new_hosts(state, limits, budget)
    }
}

/// Returns whether a kind has fewer slots than bundles, or a diversity rule fewer units than parts.
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

/// A lower bound on the number of further hosts that must come into use; `None` if no number
/// suffices.
fn new_hosts(state: &State<'_>, limits: &Limits, budget: &mut Budget<'_>) -> Option<u64> {
    let mut by_class = vec![0; limits.exclusive_classes];
    for (kind, left) in state.unplaced_kinds() {
        let missing = left.saturating_sub(state.domains.of_kind(kind).slots_in_use);
        if missing > 0 {
            let most = Some(limits.most_on_new[kind]).filter(|most| *most > 0)?;
            let of_class: &mut usize = &mut by_class[limits.exclusive_class[kind]];
            *of_class = missing.div_ceil(most).max(*of_class);
        }
    }
    let mut needed: usize = by_class.into_iter().sum();
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
