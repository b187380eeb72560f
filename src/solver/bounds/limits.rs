//! Upper bounds on what hosts and racks offer, computed once for the empty placement, for the
//! bounds.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts, racks and rules are numbered densely")]

use super::rack_fit::RackFitTable;
use crate::solver::budget::Budget;
use crate::solver::problem::{Level, Rule};
use crate::solver::state::State;

/// What each rack offers at most, as (amount, rack), descending.
pub(super) type ByRack = Vec<(u128, usize)>;

/// Upper bounds on what hosts and racks offer.
#[derive(Debug)]
pub(in crate::solver) struct Limits {
    /// By class, the prefix sums of the private capacity of unused hosts, the largest first.
    pub(in crate::solver) new_hosts: Vec<Vec<u128>>,
    /// By kind, the maximum slots of an unused host.
    pub(super) most_on_new: Vec<usize>,
    /// The number of unused hosts that are open to some kind.
    pub(in crate::solver) unused_hosts: u64,
    /// The number of racks that are open to some kind.
    pub(in crate::solver) usable_racks: u64,
    /// What racks offer on hosts in use.
    pub(in crate::solver) in_use: Racks,
    /// What racks offer on all hosts.
    pub(in crate::solver) all: Racks,
    /// The hosts whose rack is not known.
    pub(super) without_rack: Vec<usize>,
    /// How many servers each rack can take, for the choice of the next rack.
    pub(in crate::solver) rack_potential: Vec<u64>,
    /// For each kind, the rule of its clique: the diversity rule with the most bundles among those
    /// that bind it.
    pub(super) cliques: Vec<Option<usize>>,
}

/// What each rack offers at most.
#[derive(Debug)]
pub(in crate::solver) struct Racks {
    /// By class, the free private capacity.
    pub(in crate::solver) free: Vec<ByRack>,
    /// By kind, the slots.
    pub(in crate::solver) slots: Vec<ByRack>,
    /// By diversity rule, the number of parts that can have a host.
    pub(in crate::solver) parts: Vec<ByRack>,
    /// By rule, bounds on the fit in few racks, if it is the rule of a clique.
    pub(super) few: Vec<RackFitTable>,
}

impl Limits {
    /// The limits of an empty state. They must not be used once the budget is spent.
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
        let in_use = Racks::of(state, &cliques, &|host| hosts[host].in_use, budget);
        let all = Racks::of(state, &cliques, &|_| true, budget);
        let open = open_hosts(state, budget);
        let is_rack_open =
            |rack: &usize| model.units.hosts(Level::Rack, *rack).iter().any(|host| open[*host]);
        let racks = 0..model.units.count(Level::Rack);
        Self {
            new_hosts,
            most_on_new,
            unused_hosts: new().filter(|host| open[*host]).count() as u64,
            usable_racks: racks.filter(is_rack_open).count() as u64,
            without_rack: (0..hosts.len())
                .filter(|it| model.units.racks()[*it].is_none())
                .collect(),
            rack_potential: rack_potential(state, &in_use, &all, budget),
            cliques,
            in_use,
            all,
        }
    }
}

impl Racks {
    fn of(
        state: &State<'_>,
        cliques: &[Option<usize>],
        counts: &dyn Fn(usize) -> bool,
        budget: &mut Budget<'_>,
    ) -> Self {
        let model = state.model;
        let free = |class: usize| {
            by_rack(state, |host| if counts(host) { state.own_left[host][class] } else { 0 })
        };
        let of_kind = |kind: usize| {
            let slots = |host| if counts(host) { slots(state, kind, host) as u128 } else { 0 };
            let racks = by_rack(state, slots);
            at_most_one(racks, model.kinds[kind].is_apart(Level::Rack))
        };
        let of_rule = |rule: usize| {
            let Rule::Apart(level, _) = model.problem.rules[rule] else { return Vec::new() };
            let bound = &model.kinds_of_rule[rule];
            let can_be = |host: usize| bound.iter().any(|(it, _)| state.domains.is_open(*it, host));
            let racks = by_rack(state, |host| u128::from(counts(host) && can_be(host)));
            at_most_one(racks, level == Level::Rack)
        };
        let mut each = |count: usize, of: &dyn Fn(usize) -> ByRack| {
            let mut all = Vec::new();
            while all.len() < count && !budget.is_spent_after(4 * model.problem.hosts.len()) {
                let racks = of(all.len());
                budget.is_spent_with(4 * racks.len());
                all.push(racks);
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
                    RackFitTable::of(state, &kinds, counts, budget)
                })
                .collect(),
        }
    }
}

fn slots(state: &State<'_>, kind: usize, host: usize) -> usize {
    if state.domains.is_open(kind, host) { state.domains.slots(kind, host) } else { 0 }
}

/// Limits what each rack offers to one, if bundles must be in different racks.
fn at_most_one(mut racks: ByRack, is_apart: bool) -> ByRack {
    for (amount, _) in racks.iter_mut().filter(|_| is_apart) {
        *amount = 1.min(*amount);
    }
    racks
}

/// Sums over the hosts of each rack, in descending order.
fn by_rack(state: &State<'_>, of: impl Fn(usize) -> u128) -> ByRack {
    let units = &state.model.units;
    let racks = 0..units.count(Level::Rack);
    let sum = |rack| units.hosts(Level::Rack, rack).iter().map(|host| of(*host)).sum();
    let mut sums: ByRack = racks.map(|rack| (sum(rack), rack)).collect();
    sums.sort_unstable_by(|one, other| other.cmp(one));
    sums
}

/// The number of servers that each rack could take; slots on hosts in use weigh more.
fn rack_potential(
    state: &State<'_>,
    in_use: &Racks,
    all: &Racks,
    budget: &mut Budget<'_>,
) -> Vec<u64> {
    let mut rack_potential = vec![0_u64; state.model.units.count(Level::Rack)];
    for (racks, times) in [(in_use, 1 << 20), (all, 1)] {
        for (slots, kind) in racks.slots.iter().zip(&state.model.kinds) {
            if budget.is_spent_after(slots.len()) {
                return rack_potential;
            }
            for (slots, rack) in slots {
                let servers = (*slots).min(kind.bundles.len() as u128) * u128::from(kind.servers);
                rack_potential[*rack] += u64::try_from(servers).unwrap_or(1 << 20) * times;
            }
        }
    }
    rack_potential
}

/// For each host, whether it is open to some kind.
fn open_hosts(state: &State<'_>, budget: &mut Budget<'_>) -> Vec<bool> {
    let mut open = vec![false; state.model.problem.hosts.len()];
    for (host, is_open) in open.iter_mut().enumerate() {
        let somebody = (0..state.model.kinds.len()).find(|kind| state.domains.is_open(*kind, host));
        *is_open = somebody.is_some();
        if budget.is_spent_after(1 + somebody.unwrap_or(state.model.kinds.len())) {
            break;
        }
    }
    open
}

/// The diversity rule with the most bundles among those in which each bundle of a kind is a part by
/// itself. `bundles` has the number of bundles of each rule.
fn clique(state: &State<'_>, kind: usize, bundles: &[usize]) -> Option<usize> {
    let model = state.model;
    let rules = model.kinds[kind].rules.iter().filter(|(rule, part)| {
        part.is_none() && matches!(model.problem.rules[*rule], Rule::Apart(..))
    });
    rules.map(|(rule, _)| *rule).max_by_key(|rule| (bundles[*rule], *rule))
}
