//! The model of a problem: everything that is derived from it once and does not change during the
//! search.

#![expect(clippy::indexing_slicing, reason = "hosts, kinds, loads and rules are numbered densely")]

mod bundle;
mod bundle_kind;
mod by_host;
mod least_draws;
mod load;
mod quota;
mod server_choice;
mod sizes;
mod symmetry;
mod units;
mod variants;

use std::collections::HashMap;
use std::sync::OnceLock;

use self::bundle::{Bundle, bundles};
pub(super) use self::bundle_kind::BundleKind;
use self::bundle_kind::kinds;
pub(super) use self::by_host::ByHost;
pub(super) use self::load::Demand;
use self::load::Load;
pub(super) use self::quota::Quota;
pub(super) use self::server_choice::{PartChoice, PoolTable, ServerChoice, ServerChoices};
use self::sizes::Sizes;
use self::symmetry::HostSymmetry;
pub(super) use self::units::Units;
use super::budget::Budget;
use super::counted::CountedUnits;
use super::fit::fit_costs;
use super::problem::{Goal, Level, PlacementProblem, Rule, SoftRuleKind};
use super::utilisation::Utilisation;

/// A problem, and everything that is derived from it.
#[derive(Debug)]
pub(super) struct Model<'p> {
    pub(super) problem: &'p PlacementProblem,
    pub(super) units: Units,
    pub(super) sizes: Sizes<'p>,
    pub(super) bundles: Vec<Bundle>,
    pub(super) loads: Vec<Load>,
    pub(super) kinds: Vec<BundleKind>,
    pub(super) kinds_of_load: Vec<Vec<usize>>,
    /// For each rule, the kinds that it binds, each with its part; for an exclusivity rule, also
    /// the kinds that it excludes.
    pub(super) kinds_of_rule: Vec<Vec<(usize, Option<usize>)>>,
    pub(super) excluded_kinds: Vec<Vec<usize>>,
    /// The exclusivity rules.
    pub(super) exclusive_rules: Vec<usize>,
    /// The interchangeable hosts, computed on first use.
    symmetry: OnceLock<HostSymmetry>,
    /// The rules that count servers in units.
    pub(super) quotas: Vec<Quota>,
    /// The units of the soft rules, and the position of each rule's units among them.
    soft_units: Vec<CountedUnits>,
    units_of_soft: Vec<usize>,
    /// The units that the policy counts; with balancing, also their utilisation.
    pub(super) counted: Vec<CountedUnits>,
    pub(super) utilisation: Vec<Utilisation>,
    /// The fit cost of each host, and the hosts in ascending order of it.
    pub(super) fit_costs: Vec<u64>,
    pub(super) hosts_by_fit_cost: Vec<usize>,
    /// For each shared pool, the hosts that draw on it; empty if no pool is shared.
    pub(super) sharing: Vec<Vec<usize>>,
    /// The free private capacity of each host by class.
    pub(super) own_free: ByHost,
}

impl<'p> Model<'p> {
    /// Derives the model of a problem. `None` if its rules contradict each other on any hosts. The
    /// result, including `None`, must not be used once the budget is spent.
    pub(super) fn of(problem: &'p PlacementProblem, budget: &mut Budget<'_>) -> Option<Self> {
        let units = Units::of(&problem.hosts);
        let sizes = Sizes::of(problem, budget);
        // Several tables have an entry for each class and host.
        budget.is_spent_with(8 * sizes.classes * problem.hosts.len());
        if budget.is_spent() {
            return None;
        }
        let (mut bundles, loads) = bundles(problem, &units, &sizes, budget)?;
        let mut kinds = kinds(problem, &mut bundles, &loads, budget);
        if budget.is_spent() {
            return None;
        }
        let fit_costs = fit_costs(problem);
        let mut hosts_by_fit_cost: Vec<usize> = (0..problem.hosts.len()).collect();
        hosts_by_fit_cost.sort_by_key(|host| fit_costs[*host]);
        let mut kinds_of_load = vec![Vec::new(); loads.len()];
        let mut kinds_of_rule = vec![Vec::new(); problem.rules.len()];
        for (nth, kind) in kinds.iter().enumerate() {
            kinds_of_load[kind.load].push(nth);
            kind.rules.iter().for_each(|(rule, part)| kinds_of_rule[*rule].push((nth, *part)));
        }
        let exclusive_rules: Vec<usize> = (0..problem.rules.len())
            .filter(|rule| matches!(problem.rules[*rule], Rule::Alone(..)))
            .collect();
        let quotas = Quota::of(problem, &units, &mut kinds);
        budget.is_spent_after(kinds.len() * quotas.len());
        let (soft_units, units_of_soft) = soft_units(problem, budget);
        let counted = CountedUnits::of_policy(problem);
        budget.is_spent_with(2 * problem.hosts.len() * counted.len());
        let balanced: &[CountedUnits] =
            if problem.policy.goal == Goal::Balance { &counted } else { &[] };
        budget.is_spent_with(3 * sizes.classes * problem.hosts.len() * balanced.len());
        let utilisation = balanced.iter().map(|units| Utilisation::of(problem, units)).collect();
        let excluded_kinds = excluded_kinds(&kinds_of_rule, &exclusive_rules, kinds.len(), budget);
        let model = Self {
            problem,
            symmetry: OnceLock::new(),
            sharing: sizes.sharing(budget),
            own_free: sizes.own_free(budget),
            units,
            sizes,
            bundles,
            loads,
            kinds,
            kinds_of_load,
            kinds_of_rule,
            excluded_kinds,
            exclusive_rules,
            quotas,
            soft_units,
            units_of_soft,
            counted,
            utilisation,
            fit_costs,
            hosts_by_fit_cost,
        };
        let counted: usize = model.counted.iter().map(CountedUnits::count).sum();
        budget.is_spent_with((2 + model.sizes.classes) * counted);
        let tallies = problem.rules.iter().map(|rule| 2 * model.units.count(rule.level())).sum();
        budget.is_spent_with(tallies);
        budget.is_spent_with(model.state_size());
        Some(model)
    }

    /// The interchangeable hosts. Only branch and bound needs them, so they are computed on first use, and a plan
    /// without branching never computes them.
    pub(super) fn symmetry(&self, budget: &mut Budget<'_>) -> &HostSymmetry {
        let Self { problem, units, sizes, kinds, bundles, symmetry, .. } = self;
        symmetry.get_or_init(|| HostSymmetry::of(problem, units, sizes, (kinds, bundles), budget))
    }

    /// The packed racks or clusters, if the policy packs these.
    pub(super) fn packed(&self) -> Option<&CountedUnits> {
        self.counted.first().filter(|_| self.problem.policy.goal == Goal::Pack)
    }

    /// The units that a soft rule counts.
    pub(super) fn soft_units(&self, soft: usize) -> &CountedUnits {
        &self.soft_units[self.units_of_soft[soft]]
    }

    /// The memory for the domains of a state, in the units of the budget.
    pub(super) fn state_size(&self) -> usize {
        let (kinds, hosts) = (self.kinds.len(), self.problem.hosts.len());
        let units = self.units.count(Level::Rack) + self.units.count(Level::Cluster);
        kinds * (hosts + units) / 2 + self.loads.len() * hosts / 4
    }
}

/// The units that soft rules count, and the position of each rule's units among them.
fn soft_units(
    problem: &PlacementProblem,
    budget: &mut Budget<'_>,
) -> (Vec<CountedUnits>, Vec<usize>) {
    let mut known: HashMap<(Level, bool), usize> = HashMap::new();
    let mut units = Vec::new();
    let mut of_rule = Vec::with_capacity(problem.soft_rules.len());
    for soft in &problem.soft_rules {
        let is_one = soft.kind == SoftRuleKind::Apart;
        let number = *known.entry((soft.level, is_one)).or_insert_with(|| {
            budget.is_spent_with(2 * problem.hosts.len());
            units.push(CountedUnits::of_level(&problem.hosts, soft.level, is_one));
            units.len() - 1
        });
        of_rule.push(number);
    }
    (units, of_rule)
}

/// For each exclusivity rule, the kinds that it does not bind.
fn excluded_kinds(
    kinds_of_rule: &[Vec<(usize, Option<usize>)>],
    exclusive_rules: &[usize],
    kinds: usize,
    budget: &mut Budget<'_>,
) -> Vec<Vec<usize>> {
    let mut excluded_kinds = vec![Vec::new(); kinds_of_rule.len()];
    for rule in exclusive_rules {
        if budget.is_spent_with(kinds) {
            break;
        }
        let mut is_bound = vec![false; kinds];
        kinds_of_rule[*rule].iter().for_each(|(kind, _)| is_bound[*kind] = true);
        excluded_kinds[*rule] = (0..kinds).filter(|kind| !is_bound[*kind]).collect();
    }
    excluded_kinds
}
