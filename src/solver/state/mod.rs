//! A partial placement: the bundles placed so far, and the remaining capacity and hosts for the others.

#![expect(
    clippy::indexing_slicing,
    reason = "bundles, hosts, rules and units are numbered densely"
)]

mod capacity;
mod domain;
mod packing;
mod score;
mod soft;

use self::capacity::Capacity;
use self::domain::Domains;
pub(super) use self::packing::fits_alone;
use self::score::Score;
use self::soft::SoftScore;
use super::budget::Budget;
use super::model::{ByHost, Model};
use super::problem::{Goal, Level, Rule};
use super::solution::{Assignment, Cost, Counts};

/// A partial placement.
#[derive(Clone, Debug)]
pub(super) struct State<'p> {
    pub(super) model: &'p Model<'p>,
    /// The hosts that are open to the remaining bundles.
    pub(super) domains: Domains<'p>,
    capacity: Capacity<'p>,
    /// The host and variant of each bundle that is placed.
    pub(super) positions: Vec<Option<(usize, usize)>>,
    /// The bundles of each kind that are not placed.
    pub(super) unplaced: Vec<Vec<usize>>,
    /// Number of bundles of the problem on each host, and in each rack.
    on_host: Vec<usize>,
    in_rack: Vec<usize>,
    /// The units and loads that the policy counts.
    pub(super) score: Score<'p>,
    /// The cost of the soft rules.
    pub(super) soft_rules: SoftScore<'p>,
    /// For each quota, the placed servers in each unit.
    pub(super) quota_counts: Vec<Vec<u64>>,
    /// For each rule and unit, the bundles there.
    tallies: Vec<Vec<Tally>>,
    /// For each rule and part, the placed bundles. A rule without parts has one part.
    placed: Vec<Vec<usize>>,
    /// For each rule, the parts without a placed bundle.
    pub(super) unstarted: Vec<usize>,
    /// By class: the least private demand of the remaining bundles, the private capacity of hosts
    /// in use, and the private capacity of each host.
    pub(super) needed: Vec<u128>,
    pub(super) free_in_use: Vec<u128>,
    pub(super) own_left: ByHost,
    pub(super) new_hosts: u64,
    moved: u64,
    pub(super) fit: u64,
}

/// The cost that a bundle adds on a host, in the order of the components. The host that adds less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Added {
    pub(super) moved: u64,
    pub(super) violations: u64,
    /// The component of the policy's level: units, servers in the unit, or load; zero for packing hosts.
    pub(super) first: u64,
    /// The next component: new hosts with packing, otherwise that of hosts.
    pub(super) second: u64,
    pub(super) fit: u64,
}

/// The number of bundles of a rule in a unit and, for exclusivity rules, of other bundles.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    members: usize,
    others: usize,
}

impl<'p> State<'p> {
    /// The empty placement.
    pub(super) fn new(model: &'p Model<'p>, budget: &mut Budget<'_>) -> Self {
        let (problem, units) = (model.problem, &model.units);
        let tallies =
            problem.rules.iter().map(|rule| vec![Tally::default(); units.count(rule.level())]);
        let parts = problem.rules.iter().map(|rule| rule.parts().len());
        let unstarted = problem.rules.iter().map(Rule::parts);
        let unstarted = unstarted.map(|parts| parts.iter().filter(|part| !part.is_empty()).count());
        let mut state = Self {
            model,
            domains: Domains::new(model, budget),
            capacity: Capacity::new(model, budget),
            positions: vec![None; model.bundles.len()],
            unplaced: model.kinds.iter().map(|kind| kind.bundles.clone()).collect(),
            on_host: vec![0; problem.hosts.len()],
            in_rack: vec![0; units.count(Level::Rack)],
            score: Score::new(model),
            soft_rules: SoftScore::new(model),
            quota_counts: model.quotas.iter().map(|it| vec![0; units.count(it.level)]).collect(),
            tallies: tallies.collect(),
            placed: parts.map(|parts| vec![0; parts]).collect(),
            unstarted: unstarted.collect(),
            needed: vec![0; model.sizes.classes],
            free_in_use: vec![0; model.sizes.classes],
            own_left: model.own_free.clone(),
            new_hosts: 0,
            moved: 0,
            fit: 0,
        };
        for bundle in &model.bundles {
            add(&mut state.needed, &model.loads[bundle.load].least_own);
        }
        let slots = state.capacity.all_slots(&state.own_left, budget);
        state.domains.set_all_slots(slots, budget);
        let all: Vec<usize> = (0..problem.hosts.len()).collect();
        for quota in &model.quotas {
            for (kind, _) in quota.kinds.iter().filter(|(_, members)| *members > quota.most) {
                if !budget.is_spent_after(all.len()) {
                    state.rule_out(*kind, &all, true);
                }
            }
        }
        for host in 0..problem.hosts.len() {
            if budget.is_spent_after(model.kinds.len()) {
                break;
            }
            if !(0..model.kinds.len()).any(|kind| state.domains.is_open(kind, host)) {
                state.own_left[host].fill(0);
            }
            if problem.hosts[host].in_use {
                sum(&mut state.free_in_use, &state.own_left[host]);
            }
        }
        state
    }

    /// Returns whether no bundle has been placed.
    pub(super) fn is_empty(&self) -> bool {
        self.positions.iter().all(Option::is_none)
    }

    /// Returns whether no bundle has been placed on a host.
    pub(super) fn is_untouched(&self, host: usize) -> bool {
        self.on_host[host] == 0
    }

    /// Returns whether no bundle has been placed in a rack.
    pub(super) fn is_rack_untouched(&self, rack: usize) -> bool {
        self.in_rack[rack] == 0
    }

    /// Places a bundle with a variant on a host. Returns false if it does not fit. Once the budget is spent, only
    /// the positions and the capacity of the state are correct, and the bundle that was placed last must not be
    /// removed again.
    pub(super) fn place(
        &mut self,
        bundle: usize,
        (host, variant): (usize, usize),
        budget: &mut Budget<'_>,
    ) -> bool {
        if !self.capacity.take(bundle, host, variant, budget) {
            return false;
        }
        let model = self.model;
        let it = &model.bundles[bundle];
        let kind = &model.kinds[it.kind];
        let least = &model.loads[it.load].least_own;
        subtract(&mut self.needed, least);
        subtract(&mut self.own_left[host], least);
        if self.domains.is_in_use(host) {
            subtract(&mut self.free_in_use, least);
        } else {
            self.new_hosts += 1;
            self.domains.set_in_use(host, true);
            sum(&mut self.free_in_use, &self.own_left[host]);
        }
        self.on_host[host] += 1;
        if let Some(rack) = model.units.unit(Level::Rack, host) {
            self.in_rack[rack] += 1;
        }
        self.score.change(it.kind, host, true);
        self.moved += kind.moves(host);
        self.fit += model.fit_costs[host] * kind.servers;
        self.soft_rules.change(bundle, host, true);
        self.unplaced[it.kind].retain(|left| *left != bundle);
        self.positions[bundle] = Some((host, variant));
        self.tally(bundle, host, true, budget);
        self.count_quotas(it.kind, host, true, budget);
        self.slots_changed(host, budget);
        true
    }

    /// Undoes [`Self::place`] for a bundle.
    pub(super) fn take_back(&mut self, bundle: usize, budget: &mut Budget<'_>) {
        let Some((host, _)) = self.positions[bundle].take() else { return };
        self.capacity.give_back(bundle, host);
        let model = self.model;
        let it = &model.bundles[bundle];
        let kind = &model.kinds[it.kind];
        let least = &model.loads[it.load].least_own;
        self.on_host[host] -= 1;
        if self.on_host[host] == 0 && !model.problem.hosts[host].in_use {
            self.new_hosts -= 1;
            self.domains.set_in_use(host, false);
            for (at_hand, own) in self.free_in_use.iter_mut().zip(&self.own_left[host]) {
                *at_hand -= own;
            }
        } else {
            add(&mut self.free_in_use, least);
        }
        add(&mut self.needed, least);
        add(&mut self.own_left[host], least);
        if let Some(rack) = model.units.unit(Level::Rack, host) {
            self.in_rack[rack] -= 1;
        }
        self.score.change(it.kind, host, false);
        self.moved -= kind.moves(host);
        self.fit -= model.fit_costs[host] * kind.servers;
        self.soft_rules.change(bundle, host, false);
        self.unplaced[it.kind].push(bundle);
        self.tally(bundle, host, false, budget);
        self.count_quotas(it.kind, host, false, budget);
        self.slots_changed(host, budget);
    }

    fn slots_changed(&mut self, host: usize, budget: &mut Budget<'_>) {
        self.update_slots(host, budget);
        let model = self.model;
        for pool in std::mem::take(&mut self.capacity.tight) {
            let sharing = model.sharing.get(pool).into_iter().flatten();
            for other in sharing.filter(|other| **other != host) {
                self.update_slots(*other, budget);
            }
        }
    }

    fn update_slots(&mut self, host: usize, budget: &mut Budget<'_>) {
        budget.is_spent_after(4 * self.model.loads.len());
        for load in 0..self.model.loads.len() {
            if budget.is_spent_after(1) {
                return;
            }
            self.update_slots_of(load, host, budget);
        }
    }

    fn update_slots_of(&mut self, load: usize, host: usize, budget: &mut Budget<'_>) {
        let own_left = &self.own_left[host];
        let slots = self.capacity.slots(load, host, (own_left, false), budget);
        self.domains.set_slots(load, host, slots);
    }

    /// Counts a placed or removed bundle for every rule, and opens or closes hosts for other kinds
    /// accordingly (propagation).
    fn tally(&mut self, bundle: usize, host: usize, is_in: bool, budget: &mut Budget<'_>) {
        let model = self.model;
        let it = &model.bundles[bundle];
        for (rule, part) in &it.rules {
            let level = model.problem.rules[*rule].level();
            let Some(unit) = model.units.unit(level, host) else { continue };
            let is_first = change(&mut self.tallies[*rule][unit].members, is_in);
            if change(&mut self.placed[*rule][*part], is_in) {
                self.unstarted[*rule] =
                    if is_in { self.unstarted[*rule] - 1 } else { self.unstarted[*rule] + 1 };
                if let (Rule::Together(..), true) =
                    (&model.problem.rules[*rule], level > Level::Host)
                {
                    self.confine(*rule, (level, unit), is_in, budget);
                }
            }
            if !is_first {
                continue;
            }
            let hosts = model.units.hosts(level, unit);
            let is_spent = match &model.problem.rules[*rule] {
                Rule::Together(..) | Rule::AtMost(..) | Rule::Skew(_) => false,
                Rule::Apart(..) => {
                    let bound = model.kinds_of_rule[*rule].iter();
                    let others = bound.filter(|(_, it)| *it != Some(*part)).map(|(kind, _)| *kind);
                    self.rule_out_each(others, hosts, is_in, budget)
                }
                Rule::Alone(..) => {
                    let others = model.excluded_kinds[*rule].iter().copied();
                    self.rule_out_each(others, hosts, is_in, budget)
                }
            };
            if is_spent {
                return;
            }
        }
        for rule in &model.exclusive_rules {
            budget.is_spent_after(1 + it.rules.len());
            if it.rules.iter().any(|(bound, _)| bound == rule) {
                continue;
            }
            let level = model.problem.rules[*rule].level();
            let Some(unit) = model.units.unit(level, host) else { continue };
            if change(&mut self.tallies[*rule][unit].others, is_in) {
                let bound = model.kinds_of_rule[*rule].iter().map(|(kind, _)| *kind);
                let hosts = model.units.hosts(level, unit);
                if self.rule_out_each(bound, hosts, is_in, budget) {
                    return;
                }
            }
        }
    }

    /// Counts the servers of a placed or removed bundle for the quotas, and rules a unit out for the
    /// kinds whose bundles would exceed them.
    fn count_quotas(&mut self, kind: usize, host: usize, is_in: bool, budget: &mut Budget<'_>) {
        let model = self.model;
        for (nth, members) in &model.kinds[kind].quotas {
            let quota = &model.quotas[*nth];
            let Some(unit) = model.units.unit(quota.level, host) else { continue };
            let count = &mut self.quota_counts[*nth][unit];
            let before = *count;
            *count = if is_in { before + members } else { before - members };
            let (less, more) = (before.min(*count), before.max(*count));
            let hosts = model.units.hosts(quota.level, unit);
            for (other, members) in &quota.kinds {
                if less + members <= quota.most && more + members > quota.most {
                    if budget.is_spent_after(4 * hosts.len()) {
                        return;
                    }
                    self.rule_out(*other, hosts, is_in);
                }
            }
        }
    }

    /// Returns whether a complete placement meets the even distributions.
    pub(super) fn is_even(&self) -> bool {
        let mut quotas = self.model.quotas.iter().zip(&self.quota_counts);
        quotas.all(|(quota, counts)| match &self.model.problem.rules[quota.rule] {
            Rule::Skew(skew) => {
                let counts = quota.domains.iter().map(|domain| counts[*domain]);
                skew.missing(counts) <= u64::from(skew.absent)
            }
            Rule::Together(..) | Rule::Apart(..) | Rule::Alone(..) | Rule::AtMost(..) => true,
        })
    }

    /// Rules hosts out for each of some kinds, or back in. Returns whether the budget was spent before that was
    /// done.
    fn rule_out_each(
        &mut self,
        mut kinds: impl Iterator<Item = usize>,
        hosts: &[usize],
        is_out: bool,
        budget: &mut Budget<'_>,
    ) -> bool {
        kinds.any(|kind| {
            let is_spent = budget.is_spent_after(4 * hosts.len());
            if !is_spent {
                self.rule_out(kind, hosts, is_out);
            }
            is_spent
        })
    }

    /// Restricts the kinds of an affinity rule to one unit, or undoes that.
    fn confine(
        &mut self,
        rule: usize,
        (level, unit): (Level, usize),
        is_in: bool,
        budget: &mut Budget<'_>,
    ) {
        let model = self.model;
        for (kind, _) in &model.kinds_of_rule[rule] {
            if budget.is_spent_after(4 * model.problem.hosts.len()) {
                return;
            }
            for host in 0..model.problem.hosts.len() {
                if model.units.unit(level, host) != Some(unit) {
                    self.rule_out(*kind, &[host], is_in);
                }
            }
        }
    }

    /// Rules hosts out for a kind, or back in.
    pub(super) fn rule_out(&mut self, kind: usize, hosts: &[usize], is_out: bool) {
        for host in hosts {
            if is_out {
                self.domains.block(kind, *host);
            } else {
                self.domains.unblock(kind, *host);
            }
        }
    }

    /// The cost of the bundles placed so far, without the counts of servers per unit.
    pub(super) fn partial_cost(&self) -> Cost {
        let is_packed = self.model.problem.policy.goal == Goal::Pack;
        let new_hosts = if is_packed { self.new_hosts } else { 0 };
        let (moved, violations, fit) = (self.moved, self.soft_rules.cost, self.fit);
        let mut cost = Cost { moved, violations, new_hosts, fit, ..Cost::default() };
        self.score.write(&mut cost);
        cost
    }

    /// The cost of the bundles placed so far; for a complete placement, its cost.
    pub(super) fn cost(&self) -> Cost {
        let is_spread = self.model.problem.policy.goal == Goal::Spread;
        let counts = |level: usize| {
            if is_spread { self.score.counts(level) } else { Counts::default() }
        };
        Cost { per_unit: counts(0), per_host: counts(1), ..self.partial_cost() }
    }

    /// The cost that placing a bundle of a kind on a host adds.
    pub(super) fn added(&self, kind: usize, host: usize) -> Added {
        let it = &self.model.kinds[kind];
        let goal = self.model.problem.policy.goal;
        let is_new = goal == Goal::Pack && !self.domains.is_in_use(host);
        Added {
            moved: it.moves(host),
            violations: self.added_violations(kind, host),
            first: self.score.added(0, kind, host),
            second: if goal == Goal::Pack {
                u64::from(is_new)
            } else {
                self.score.added(1, kind, host)
            },
            fit: self.model.fit_costs[host] * it.servers,
        }
    }

    /// The cost of the soft rules that a bundle of a kind on a host adds.
    pub(super) fn added_violations(&self, kind: usize, host: usize) -> u64 {
        let bundle =
            self.unplaced[kind].last().filter(|_| !self.model.kinds[kind].soft_rules.is_empty());
        bundle.map_or(0, |bundle| self.soft_rules.added(*bundle, host))
    }

    /// The kinds with unplaced bundles, and the number of these bundles.
    pub(super) fn unplaced_kinds(&self) -> impl Iterator<Item = (usize, usize)> {
        let counts = self.unplaced.iter().map(Vec::len).enumerate();
        counts.filter(|(_, count)| *count > 0)
    }

    /// The minimum number of servers that one bundle of a kind moves.
    pub(super) fn fewest_moves(&self, kind: usize) -> u64 {
        let it = &self.model.kinds[kind];
        let hosts = self.model.problem.hosts.len();
        let open =
            it.homes.iter().filter(|(home, _)| *home < hosts && self.domains.is_open(kind, *home));
        it.settled - open.map(|(_, stay)| *stay).max().unwrap_or(0)
    }

    /// The assignment of each server; the default for those whose bundle is not placed.
    pub(super) fn assignments(&self) -> Vec<Assignment> {
        let mut assignments = vec![Assignment::default(); self.model.problem.servers.len()];
        for (nth, position) in self.positions.iter().enumerate() {
            let Some((host, _)) = *position else { continue };
            let servers = self.model.bundles[nth].servers.iter();
            for (server, ways) in servers.zip(self.capacity.ways(nth, host)) {
                assignments[*server] = Assignment { host, ways };
            }
        }
        assignments
    }
}

/// Counts up or down. Returns whether the count was or became zero.
fn change(count: &mut usize, is_in: bool) -> bool {
    *count = if is_in { *count + 1 } else { *count - 1 };
    *count == usize::from(is_in)
}

fn sum(sums: &mut [u128], other: &[u128]) {
    sums.iter_mut().zip(other).for_each(|(sum, it)| *sum += it);
}

fn add(sums: &mut [u128], other: &[u64]) {
    sums.iter_mut().zip(other).for_each(|(sum, it)| *sum += u128::from(*it));
}

fn subtract(sums: &mut [u128], other: &[u64]) {
    sums.iter_mut().zip(other).for_each(|(sum, it)| *sum -= u128::from(*it));
}
