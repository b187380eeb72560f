//! A lower bound on the fit by Lagrangian relaxation, for packing hosts. docs/solver.md derives it.
//!
//! Each bundle has a price. Without the condition that every bundle is placed, the hosts are independent: each
//! takes the set of bundles with the highest profit, which is their prices minus their fit. The sum of all prices
//! minus the profits of all hosts is a lower bound, whatever the prices are.

#![expect(
    clippy::indexing_slicing,
    reason = "kinds, hosts, classes and rules are numbered densely"
)]

mod ascent;
mod knapsack;
mod prices;

use std::cmp::Reverse;

use self::knapsack::{Item, Knapsack};
pub(in crate::solver) use self::prices::{FitBoundScaled, Prices};
use self::prices::{SCALE, TakenBundles, signed};
use super::limits::Limits;
use crate::solver::budget::Budget;
use crate::solver::counted::CountedUnits;
use crate::solver::model::{BundleKind, Demand, Model};
use crate::solver::problem::{Level, Rule};
use crate::solver::state::State;

/// Maximum number of diversity rules of hosts in the knapsacks, and of priced racks of all rules. Further rules are
/// ignored, which lowers the bound.
const RULES_MAX: usize = 64;
const RACK_PRICES_MAX: usize = 1 << 14;

/// The price of a host or a unit that must not come into use.
const PROHIBITIVE: i64 = i64::MAX / 4;

/// The relaxation of a problem, with its prices.
#[derive(Debug)]
pub(in crate::solver) struct Lagrangian<'p> {
    model: &'p Model<'p>,
    limits: &'p Limits,
    /// For each kind, the diversity rules of hosts in which each bundle is a part of its own, as bits.
    apart: Vec<u64>,
    /// For each kind, the rules that limit its servers in each rack, by their position in the prices, each with the
    /// number of places that one bundle takes. Diversity rules come first, those in which each bundle is a part of its
    /// own; then quotas.
    in_racks: Vec<Vec<(usize, u64)>>,
    /// The number of these diversity rules, and the quotas of racks.
    apart_in_racks: usize,
    rack_quotas: Vec<usize>,
    prices: Prices,
    /// The bundles that the hosts take at these prices.
    taken: TakenBundles,
    knapsack: Knapsack,
    free: Vec<u64>,
    needs: Vec<u64>,
    /// The most profitable set of the last host.
    chosen: Chosen,
}

/// The number and the length of the steps that improve prices.
#[derive(Clone, Copy, Debug)]
pub(in crate::solver) struct Effort {
    /// Maximum number of steps.
    pub(in crate::solver) steps: usize,
    /// Divisor of the best fit for the smallest gap that a step aims to close. A good best fit may be known before
    /// good prices are; steps that aim only at it are then too short to make progress.
    pub(in crate::solver) gap_divisor: Option<i64>,
}

/// The hosts and units that may additionally come into use.
#[derive(Clone, Copy, Debug)]
pub(in crate::solver) struct Allowance {
    pub(in crate::solver) new_hosts: usize,
    /// Units without a server of the problem, if the policy packs racks or clusters.
    pub(in crate::solver) units: usize,
}

/// A set of bundles: kinds, each with its number of bundles.
type Chosen = Vec<(usize, u64)>;

/// A condition on the bundles that a host takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BundleCondition {
    /// No condition.
    Any,
    /// It includes a bundle of this kind.
    With(usize),
    /// It includes no bundle of this kind.
    Without(usize),
}

impl<'p> Lagrangian<'p> {
    /// Creates the relaxation, with all prices at zero.
    pub(in crate::solver) fn new(model: &'p Model<'p>, limits: &'p Limits) -> Self {
        let apart_at = |level: Level| {
            let rules = model.problem.rules.iter().enumerate();
            let rules =
                rules.filter(move |(_, it)| matches!(it, Rule::Apart(at, _) if *at == level));
            rules.map(|(rule, _)| rule).collect::<Vec<usize>>()
        };
        let (hosts, mut racks) = (apart_at(Level::Host), apart_at(Level::Rack));
        let rules_max = RACK_PRICES_MAX / model.units.count(Level::Rack).max(1);
        racks.truncate(rules_max);
        let quotas = model.quotas.iter().enumerate();
        let quotas = quotas.filter(|(_, quota)| quota.level == Level::Rack).map(|(nth, _)| nth);
        let rack_quotas: Vec<usize> = quotas.take(rules_max - racks.len()).collect();
        let of = |kind: &BundleKind, rules: &[usize]| -> Vec<usize> {
            let own = kind.rules.iter().filter(|(_, part)| part.is_none());
            own.filter_map(|(rule, _)| rules.binary_search(rule).ok()).collect()
        };
        let bits = |kind: &BundleKind| {
            let rules = of(kind, &hosts).into_iter().filter(|rule| *rule < RULES_MAX);
            rules.fold(0, |bits, rule| bits | 1_u64 << rule)
        };
        let units = model.packed().map_or(0, CountedUnits::count);
        let in_racks = |kind: &BundleKind| {
            let apart = of(kind, &racks).into_iter().map(|rule| (rule, 1));
            let quotas = kind.quotas.iter().filter_map(|(quota, members)| {
                let nth = rack_quotas.binary_search(quota).ok()?;
                Some((racks.len() + nth, *members))
            });
            apart.chain(quotas).collect()
        };
        let (kinds, rules) = (model.kinds.len(), racks.len() + rack_quotas.len());
        let rack_count = model.units.count(Level::Rack);
        Self {
            model,
            limits,
            apart: model.kinds.iter().map(bits).collect(),
            in_racks: model.kinds.iter().map(in_racks).collect(),
            apart_in_racks: racks.len(),
            prices: Prices::new(kinds, rules, rack_count, units),
            taken: TakenBundles::new(kinds, rules, rack_count),
            rack_quotas,
            knapsack: Knapsack::default(),
            free: Vec::new(),
            needs: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// The prices.
    pub(in crate::solver) fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Replaces the prices.
    pub(in crate::solver) fn set_prices(&mut self, prices: &Prices) {
        self.prices.clone_from(prices);
    }

    /// Sets the price of each kind to the fit of its most expensive bundle in a placement: `fit` is that of one
    /// server of each bundle.
    pub(in crate::solver) fn set_prices_from(&mut self, fit: impl Iterator<Item = u64>) {
        for (bundle, fit) in self.model.bundles.iter().zip(fit) {
            let servers = self.model.kinds[bundle.kind].servers;
            let price = &mut self.prices.kinds[bundle.kind];
            *price = ((signed(fit * servers) + 1) * SCALE).max(*price);
        }
    }

    /// The increase of the bound if a bundle of a kind is placed on a host. Inexact if it is at least `enough`.
    pub(in crate::solver) fn rise_with(
        &mut self,
        state: &State<'_>,
        (kind, host): (usize, usize),
        enough: i64,
        budget: &mut Budget<'_>,
    ) -> i64 {
        let unit = self.model.packed().map_or(0, |units| self.prices.units[units.unit(host)]);
        // Nothing on the host is more profitable than the set without the bundle.
        let loss = unit - self.profit(kind, host);
        if loss >= enough {
            return loss;
        }
        let with = self.value(state, host, BundleCondition::With(kind), budget);
        unit + self.value(state, host, BundleCondition::Any, budget) - with
    }

    /// A lower bound on the increase of the bound if no bundle of a kind is placed on a host.
    pub(in crate::solver) fn rise_without(
        &mut self,
        state: &State<'_>,
        kind: usize,
        host: usize,
        budget: &mut Budget<'_>,
    ) -> i64 {
        if untouched_unit(state, host).is_some() {
            // Another unit may take the place of this one, with the same profit.
            return 0;
        }
        let without = self.value(state, host, BundleCondition::Without(kind), budget);
        self.value(state, host, BundleCondition::Any, budget) - without
    }

    /// The profit of a bundle of a kind on a host.
    fn profit(&self, kind: usize, host: usize) -> i64 {
        let fit = signed(self.model.fit_costs[host] * self.model.kinds[kind].servers) * SCALE;
        let rules = &self.in_racks[kind];
        let rack = self.model.units.unit(Level::Rack, host).filter(|_| !rules.is_empty());
        let in_rack = |rack: usize| -> i64 {
            rules
                .iter()
                .map(|(rule, places)| self.prices.racks[*rule][rack] * signed(*places))
                .sum()
        };
        self.prices.kinds[kind] - fit - rack.map_or(0, in_rack)
    }

    /// The numbers of places that must be taken in a rack, and that may be, by a rule.
    fn places(&self, state: &State<'_>, rule: usize, rack: usize) -> (i64, i64) {
        match rule.checked_sub(self.apart_in_racks) {
            None => (0, 1),
            Some(nth) => {
                let quota = self.rack_quotas[nth];
                let count = state.quota_counts[quota][rack];
                let quota = &self.model.quotas[quota];
                let least =
                    if quota.domains.binary_search(&rack).is_ok() { quota.least } else { 0 };
                (signed(least.saturating_sub(count)), signed(quota.most.saturating_sub(count)))
            }
        }
    }

    /// An upper bound on the profit of a host with further bundles, minus the price of taking it into use; zero
    /// without bundles.
    fn value(
        &mut self,
        state: &State<'_>,
        host: usize,
        only: BundleCondition,
        budget: &mut Budget<'_>,
    ) -> i64 {
        let model = self.model;
        let is_new = !state.domains.is_in_use(host);
        let mut base = if is_new { -self.prices.new_host } else { 0 };
        self.chosen.clear();
        self.free.clear();
        let free = state.own_left[host].iter().map(|it| u64::try_from(*it).unwrap_or(u64::MAX));
        self.free.extend(free);
        let mut best = 0;
        let mut apart = 0;
        let mut class = None;
        if let BundleCondition::With(kind) = only {
            base += self.profit(kind, host);
            best = base;
            (apart, class) = (self.apart[kind], Some(self.limits.exclusive_class[kind]));
            self.needs.clear();
            needs(model, kind, host, &mut self.needs);
            for (free, need) in self.free.iter_mut().zip(&self.needs) {
                *free = free.saturating_sub(*need);
            }
        }
        for class in class.map_or(0..self.limits.exclusive_classes, |class| class..class + 1) {
            self.fill_knapsack(state, host, (only, class, apart), budget);
            if self.knapsack.items.is_empty() {
                continue;
            }
            self.knapsack.free.extend(&self.free);
            let value = base + signed(self.knapsack.solve(budget));
            if value > best {
                best = value;
                self.chosen.clear();
                self.chosen.extend(self.knapsack.taken());
            }
        }
        best
    }

    /// Adds the kinds of an exclusivity class that may be placed on a host with a profit to the knapsack.
    fn fill_knapsack(
        &mut self,
        state: &State<'_>,
        host: usize,
        (only, class, apart): (BundleCondition, usize, u64),
        budget: &mut Budget<'_>,
    ) {
        let model = self.model;
        self.knapsack.clear(model.sizes.classes);
        budget.is_spent_after(2 * model.kinds.len());
        for (kind, left) in state.unplaced_kinds() {
            let it = &model.kinds[kind];
            let is_open =
                || state.domains.is_open(kind, host) && only != BundleCondition::Without(kind);
            if self.limits.exclusive_class[kind] != class
                || apart & self.apart[kind] != 0
                || !is_open()
            {
                continue;
            }
            let profit = u64::try_from(self.profit(kind, host)).unwrap_or(0);
            let moves_more = it.settled > 0 && it.moves(host) > state.fewest_moves(kind);
            let most = state.domains.slots(kind, host).min(left);
            let most = most - usize::from(only == BundleCondition::With(kind));
            if profit > 0 && most > 0 && !moves_more {
                let item = Item { kind, profit, most: most as u64, apart: self.apart[kind] };
                self.knapsack.items.push(item);
                needs(model, kind, host, &mut self.knapsack.needs);
            }
        }
    }

    /// The bound at the current prices, if `more` may come into use. Also chooses the best prices for a new host
    /// and for each unit, and counts the bundles taken.
    fn evaluate(&mut self, state: &State<'_>, more: Allowance, budget: &mut Budget<'_>) -> i64 {
        let model = self.model;
        let kept = budget.kept();
        let left = |(kind, left): (usize, usize)| self.prices.kinds[kind] * signed(left as u64);
        let mut bound = signed(state.fit) * SCALE + state.unplaced_kinds().map(left).sum::<i64>();
        for (rule, prices) in self.prices.racks.iter().enumerate() {
            let prices = prices.iter().enumerate();
            let refund = |(rack, price): (usize, &i64)| {
                let (least, most) = self.places(state, rule, rack);
                price * if *price < 0 { least } else { most }
            };
            bound -= prices.map(refund).sum::<i64>();
        }
        let for_server = |(kind, _): (usize, usize)| {
            let of_rule = |(rule, places): &(usize, u64)| {
                let lowest =
                    self.prices.racks[*rule].iter().min().map_or(0, |price| (*price).min(0));
                lowest * signed(*places)
            };
            let premium: i64 = self.in_racks[kind].iter().map(of_rule).sum();
            let servers = signed(model.kinds[kind].servers.max(1));
            // Rounded up, so that no host is left out that may bring something in.
            (self.prices.kinds[kind] - premium + servers - 1).div_euclid(servers)
        };
        let dearest = state.unplaced_kinds().map(for_server).max().unwrap_or(0);
        self.prices.new_host = 0;
        self.taken.clear();
        let mut new: Vec<(i64, usize, Chosen)> = Vec::new();
        let mut in_units: Vec<(usize, i64, usize, Chosen)> = Vec::new();
        for host in &model.hosts_by_fit_cost {
            if signed(model.fit_costs[*host]) * SCALE >= dearest || budget.is_spent_after(1) {
                break;
            }
            let is_new = !state.domains.is_in_use(*host);
            let unit = untouched_unit(state, *host);
            if is_new && more.new_hosts == 0 || unit.is_some() && more.units == 0 {
                continue;
            }
            let value = self.value(state, *host, BundleCondition::Any, budget);
            if value > 0 && (is_new || unit.is_some()) {
                budget.is_spent_with(4 + 2 * self.chosen.len());
            }
            if value > 0 && is_new {
                new.push((value, *host, self.chosen.clone()));
            } else if let (true, Some(unit)) = (value > 0, unit) {
                in_units.push((unit, value, *host, self.chosen.clone()));
            } else {
                bound -= value;
                self.take(*host, None);
            }
        }
        bound -= self.choose_units(state, more.units, &in_units, budget);
        new.sort_unstable_by_key(|(value, host, _)| (Reverse(*value), *host));
        for (value, host, chosen) in new.iter().take(more.new_hosts) {
            bound -= value;
            self.take(*host, Some(chosen));
        }
        // At this price, exactly as many hosts as may come into use are profitable.
        self.prices.new_host = match new.get(more.new_hosts) {
            _ if more.new_hosts == 0 => PROHIBITIVE,
            Some((value, ..)) => *value,
            None => 0,
        };
        budget.release_to(kept);
        bound
    }

    /// Selects the hosts of the `more` most profitable units: each with its unit, its profit, and its bundles.
    /// Returns the profit of these units. The price of each unit becomes its advantage over the last of these.
    fn choose_units(
        &mut self,
        state: &State<'_>,
        count: usize,
        hosts: &[(usize, i64, usize, Chosen)],
        budget: &mut Budget<'_>,
    ) -> i64 {
        let Some(units) = self.model.packed() else { return 0 };
        budget.is_spent_after(8 * units.count() + hosts.len());
        let mut values: Vec<(i64, usize)> = (0..units.count()).map(|unit| (0, unit)).collect();
        for (unit, value, ..) in hosts {
            values[*unit].0 += value;
        }
        let is_open = |unit: usize| state.score.servers(0, unit) > 0;
        let mut order: Vec<(i64, usize)> =
            values.iter().copied().filter(|(_, unit)| !is_open(*unit)).collect();
        order.sort_unstable_by_key(|(value, unit)| (Reverse(*value), *unit));
        order.truncate(count);
        let last = order.last().map(|(value, _)| *value);
        for (value, unit) in values {
            let instead = last.map_or(PROHIBITIVE, |last| (last - value).max(0));
            self.prices.units[unit] = if is_open(unit) { 0 } else { instead };
        }
        let mut is_taken = vec![false; units.count()];
        for (_, unit) in &order {
            is_taken[*unit] = true;
        }
        for (_, _, host, chosen) in hosts.iter().filter(|(unit, ..)| is_taken[*unit]) {
            self.take(*host, Some(chosen));
        }
        order.iter().map(|(value, _)| value).sum()
    }

    /// Counts the bundles that a host takes: these, or those that were chosen last.
    fn take(&mut self, host: usize, chosen: Option<&Chosen>) {
        let rack = self.model.units.unit(Level::Rack, host);
        let chosen = match chosen {
            Some(chosen) => chosen,
            None => &self.chosen,
        };
        self.taken.add(chosen, &self.in_racks, rack);
    }
}

/// The unit of a host, if the policy packs units and this one has no server yet.
fn untouched_unit(state: &State<'_>, host: usize) -> Option<usize> {
    let unit = state.model.packed()?.unit(host);
    Some(unit).filter(|unit| state.score.servers(0, *unit) == 0)
}

/// Adds the minimum private demand of a bundle of a kind on a host, class by class.
fn needs(model: &Model<'_>, kind: usize, host: usize, needs: &mut Vec<u64>) {
    let load = &model.loads[model.kinds[kind].load];
    let from = needs.len();
    match load.at(host) {
        Demand::Plain(draws) => {
            needs.resize(from + model.sizes.classes, 0);
            for (pool, amount) in draws.iter().filter(|(pool, _)| !model.sizes.shared[*pool]) {
                needs[from + model.problem.pools[*pool].class] += amount;
            }
        }
        Demand::Choice(_) | Demand::Never => needs.extend(&load.least_own),
    }
}
