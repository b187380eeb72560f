//! Upper bounds on the capacity of hosts and counted units, computed once for the empty placement, for the bounds.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts, units and rules are numbered densely")]

use std::collections::HashMap;

use super::unit_fit::UnitFitTable;
use crate::solver::budget::Budget;
use crate::solver::counted::CountedUnits;
use crate::solver::model::BundleKind;
use crate::solver::problem::Rule;
use crate::solver::state::State;

/// The maximum offer of each unit, as (amount, unit), descending.
pub(super) type ByUnit = Vec<(u128, usize)>;

/// Upper bounds on the offers of hosts and racks.
#[derive(Debug)]
pub(in crate::solver) struct Limits {
    /// By class, the prefix sums of the private capacity of unused hosts, the largest first.
    pub(in crate::solver) new_hosts: Vec<Vec<u128>>,
    /// By kind, the maximum slots of an unused host.
    pub(super) most_on_new: Vec<usize>,
    /// For each kind, its class: kinds of different classes are never on one host, because their bundles are in
    /// different exclusivity rules.
    pub(super) exclusive_class: Vec<usize>,
    /// The number of these classes.
    pub(super) exclusive_classes: usize,
    /// With packing of racks or clusters: their offers on hosts in use, and on all hosts.
    pub(in crate::solver) in_use: Offers,
    pub(in crate::solver) all: Offers,
    /// The number of servers that each of these can take, for the choice of the next one.
    pub(in crate::solver) potential: Vec<u64>,
    /// For each kind, the rule of its clique: the diversity rule with the most bundles among those
    /// that bind it.
    pub(super) cliques: Vec<Option<usize>>,
}

/// The maximum offer of each unit.
#[derive(Debug, Default)]
pub(in crate::solver) struct Offers {
    /// By class, the free private capacity.
    pub(in crate::solver) free: Vec<ByUnit>,
    /// By kind, the slots.
    pub(in crate::solver) slots: Vec<ByUnit>,
    /// By diversity rule, the number of parts that can have a host.
    pub(in crate::solver) parts: Vec<ByUnit>,
    /// By rule, bounds on the fit in few units, if it is the rule of a clique.
    pub(super) few: Vec<UnitFitTable>,
}

impl Limits {
    /// Computes the limits of an empty state. They must not be used once the budget is spent.
    pub(in crate::solver) fn of(state: &State<'_>, budget: &mut Budget<'_>) -> Self {
        let model = state.model;
        let hosts = &model.problem.hosts;
        let is_new = |host: &usize| !hosts[*host].in_use;
        let new = || (0..hosts.len()).filter(is_new);
        let kinds = || 0..model.kinds.len();
        let new_hosts = (0..model.sizes.classes).map(|class| {
            let mut free: Vec<u128> = new().map(|host| state.own_left[host][class]).collect();
            free.sort_unstable_by(|one, other| other.cmp(one));
            budget.is_spent_after(8 * free.len());
            let add = |sum: &mut u128, it: u128| {
                *sum += it;
                Some(*sum)
            };
            free.into_iter().scan(0, add).collect()
        });
        let new_hosts = new_hosts.collect();
        let mut most_on_new = vec![0; model.kinds.len()];
        for (kind, most) in most_on_new.iter_mut().enumerate() {
            if !budget.is_spent_after(2 * hosts.len()) {
                *most = new().map(|host| slots(state, kind, host)).max().unwrap_or(0);
            }
        }
        let bundles: Vec<usize> = (0..model.problem.rules.len())
            .map(|rule| {
                budget.is_spent_after(1 + model.kinds_of_rule[rule].len());
                model.kinds_of_rule[rule]
                    .iter()
                    .map(|(kind, _)| model.kinds[*kind].bundles.len())
                    .sum()
            })
            .collect();
        let cliques: Vec<Option<usize>> =
            kinds().map(|kind| clique(state, kind, &bundles)).collect();
        let (in_use, all) = match model.packed() {
            None => (Offers::default(), Offers::default()),
            Some(units) => {
                let is_in_use = |host: usize| hosts[host].in_use;
                let in_use = Offers::of(state, units, &cliques, &is_in_use, budget);
                (in_use, Offers::of(state, units, &cliques, &|_| true, budget))
            }
        };
        let potential = potential(state, &in_use, &all, budget);
        let (exclusive_class, exclusive_classes) = exclusive_classes(state);
        Self {
            new_hosts,
            most_on_new,
            exclusive_class,
            exclusive_classes,
            in_use,
            all,
            potential,
            cliques,
        }
    }
}

/// For each kind, the number of the set of exclusivity rules that bind it, and the number of sets. A bundle in such
/// a rule shares its unit only with bundles in the same rule.
fn exclusive_classes(state: &State<'_>) -> (Vec<usize>, usize) {
    let model = state.model;
    let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
    let class = |kind: &BundleKind| {
        let rules = kind.rules.iter().map(|(rule, _)| *rule);
        let alone = |rule: &usize| matches!(model.problem.rules[*rule], Rule::Alone(..));
        let next = known.len();
        *known.entry(rules.filter(alone).collect()).or_insert(next)
    };
    let classes = model.kinds.iter().map(class).collect();
    (classes, known.len())
}

impl Offers {
    fn of(
        state: &State<'_>,
        units: &CountedUnits,
        cliques: &[Option<usize>],
        counts: &dyn Fn(usize) -> bool,
        budget: &mut Budget<'_>,
    ) -> Self {
        let model = state.model;
        let counted = model.problem.policy.level;
        let free = |class: usize| {
            by_unit(units, |host| if counts(host) { state.own_left[host][class] } else { 0 })
        };
        let of_kind = |kind: usize| {
            let slots = |host| if counts(host) { slots(state, kind, host) as u128 } else { 0 };
            let offers = by_unit(units, slots);
            at_most_one(offers, model.kinds[kind].is_apart(counted))
        };
        let of_rule = |rule: usize| {
            let Rule::Apart(level, _) = model.problem.rules[rule] else { return Vec::new() };
            let bound = &model.kinds_of_rule[rule];
            let can_be = |host: usize| bound.iter().any(|(it, _)| state.domains.is_open(*it, host));
            let offers = by_unit(units, |host| u128::from(counts(host) && can_be(host)));
            at_most_one(offers, level == counted)
        };
        let mut each = |count: usize, of: &dyn Fn(usize) -> ByUnit| {
            let mut all = Vec::new();
            while all.len() < count && !budget.is_spent_after(4 * model.problem.hosts.len()) {
                let offers = of(all.len());
                budget.is_spent_with(4 * offers.len());
                all.push(offers);
            }
            all
        };
        Self {
            free: each(model.sizes.classes, &free),
            slots: each(model.kinds.len(), &of_kind),
            parts: each(model.problem.rules.len(), &of_rule),
            few: (0..model.problem.rules.len())
                .map(|rule| {
                    budget.is_spent_after(cliques.len());
                    let clique = cliques.iter().enumerate().filter(|(_, it)| **it == Some(rule));
                    let kinds: Vec<usize> = clique.map(|(kind, _)| kind).collect();
                    UnitFitTable::of(state, units, &kinds, counts, budget)
                })
                .collect(),
        }
    }
}

fn slots(state: &State<'_>, kind: usize, host: usize) -> usize {
    if state.domains.is_open(kind, host) { state.domains.slots(kind, host) } else { 0 }
}

/// Limits the offer of each unit to 1, if bundles must be in different units.
fn at_most_one(mut offers: ByUnit, is_apart: bool) -> ByUnit {
    for (amount, _) in offers.iter_mut().filter(|_| is_apart) {
        *amount = 1.min(*amount);
    }
    offers
}

/// Sums over the hosts of each unit, in descending order.
fn by_unit(units: &CountedUnits, of: impl Fn(usize) -> u128) -> ByUnit {
    let sum = |unit| units.hosts(unit).iter().map(|host| of(*host)).sum();
    let mut sums: ByUnit = (0..units.count()).map(|unit| (sum(unit), unit)).collect();
    sums.sort_unstable_by(|one, other| other.cmp(one));
    sums
}

/// The number of servers that each unit could take; slots on hosts in use weigh more.
fn potential(
    state: &State<'_>,
    in_use: &Offers,
    all: &Offers,
    budget: &mut Budget<'_>,
) -> Vec<u64> {
    let mut potential = vec![0_u64; state.model.packed().map_or(0, CountedUnits::count)];
    for (offers, times) in [(in_use, 1 << 20), (all, 1)] {
        for (slots, kind) in offers.slots.iter().zip(&state.model.kinds) {
            if budget.is_spent_after(slots.len()) {
                return potential;
            }
            for (slots, unit) in slots {
                let servers = (*slots).min(kind.bundles.len() as u128) * u128::from(kind.servers);
                potential[*unit] += u64::try_from(servers).unwrap_or(1 << 20) * times;
            }
        }
    }
    potential
}

/// The diversity rule with the most bundles among those in which each bundle of a kind is a part of its own.
/// `bundles` has the number of bundles of each rule.
fn clique(state: &State<'_>, kind: usize, bundles: &[usize]) -> Option<usize> {
    let model = state.model;
    let rules = model.kinds[kind].rules.iter().filter(|(rule, part)| {
        part.is_none() && matches!(model.problem.rules[*rule], Rule::Apart(..))
    });
    rules.map(|(rule, _)| *rule).max_by_key(|rule| (bundles[*rule], *rule))
}
