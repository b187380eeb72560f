//! A lower bound on the fit of the remaining bundles. docs/solver.md derives it.

#![expect(clippy::indexing_slicing, reason = "kinds, hosts and rules are numbered densely")]

use std::collections::HashMap;

use super::limits::Limits;
use super::unit_fit::{NONE, UnitFitTable, sums, together};
use crate::solver::budget::Budget;
use crate::solver::state::State;

/// Whether a host may be used.
pub(super) type IsUsable<'u> = &'u dyn Fn(usize) -> bool;

/// The hosts that the remaining bundles may use.
#[derive(Clone, Copy)]
pub(super) struct UsableHosts<'u> {
    /// Whether a host may be used.
    pub(super) is_usable: IsUsable<'u>,
    /// The maximum number of further servers on a host.
    pub(super) most: &'u dyn Fn(usize) -> usize,
    /// The number of further counted units that are opened, and whether only hosts in use count.
    pub(super) more_units: Option<(u64, bool)>,
}

/// A lower bound on the fit of the remaining bundles.
#[derive(Debug)]
pub(in crate::solver) struct FitBound {
    cliques: Vec<Clique>,
}

impl FitBound {
    /// The bound for all of them.
    pub(in crate::solver) fn all(&self) -> u64 {
        self.cliques.iter().map(Clique::least).sum()
    }

    /// The bound for all but one bundle of a kind.
    pub(in crate::solver) fn without(&self, kind: usize) -> u64 {
        self.cliques.iter().map(|clique| clique.least_without(kind)).sum()
    }
}

/// A lower bound on the fit of the remaining bundles, assuming that they use only usable hosts, at most `most`
/// servers of each kind per host, and the minimum number of moves. `None` if that is impossible. The result must not
/// be used once the budget is spent.
pub(super) fn fit_bound(
    state: &State<'_>,
    limits: &Limits,
    UsableHosts { is_usable, most, more_units }: UsableHosts<'_>,
    budget: &mut Budget<'_>,
) -> Option<FitBound> {
    budget.is_spent_after(4 * state.unplaced.len());
    let mut cliques = cliques(state, limits);
    let mut open = cliques.len();
    for host in &state.model.hosts_by_fit_cost {
        if open == 0 || budget.is_spent_after(1) {
            break;
        }
        if is_usable(*host) {
            let open_ones = cliques.iter().filter(|it| it.is_open());
            budget.is_spent_after(open_ones.map(|it| 4 * it.members.len()).sum());
            let fit_cost = state.model.fit_costs[*host];
            for clique in cliques.iter_mut().filter(|it| it.is_open()) {
                open -= usize::from(clique.fill(state, *host, most(*host), fit_cost));
            }
        }
    }
    for clique in &mut cliques {
        let few = clique.rule.zip(more_units);
        clique.few =
            few.and_then(|(rule, units)| FitInFewUnits::of(state, limits, (rule, units), budget));
    }
    let is_there = open == 0 && cliques.iter().all(Clique::is_in_few);
    is_there.then_some(FitBound { cliques })
}

/// Kinds whose bundles need a host each, because one diversity rule binds them (a clique in the graph of
/// conflicts); or a single other kind.
#[derive(Debug, Default)]
struct Clique {
    rule: Option<usize>,
    members: Vec<KindFill>,
    /// The fit costs of the cheapest hosts, one for each bundle, and the number of hosts needed.
    fit_costs: Vec<u64>,
    hosts: usize,
    /// The bound if only a number of units may be opened.
    few: Option<FitInFewUnits>,
}

/// A kind that fills the cheapest hosts as if it were alone.
#[derive(Debug)]
struct KindFill {
    kind: usize,
    left: usize,
    moves: u64,
    /// The servers of one bundle.
    servers: u64,
    bundles: usize,
    sum: u64,
    /// The fit cost of the most expensive host that it takes.
    last: u64,
}

fn cliques(state: &State<'_>, limits: &Limits) -> Vec<Clique> {
    let mut cliques: Vec<Clique> = Vec::new();
    let mut known: HashMap<usize, usize> = HashMap::new();
    for (kind, left) in state.unplaced_kinds() {
        let rule = limits.cliques[kind];
        let next = cliques.len();
        let at = rule.map_or(next, |rule| *known.entry(rule).or_insert(next));
        if at == next {
            cliques.push(Clique { rule, ..Clique::default() });
        }
        let servers = state.model.kinds[kind].servers;
        let moves = state.fewest_moves(kind);
        let it = KindFill { kind, left, moves, servers, bundles: left, sum: 0, last: 0 };
        cliques[at].members.push(it);
        cliques[at].hosts += if rule.is_some() { left } else { 0 };
    }
    cliques
}

impl Clique {
    fn is_open(&self) -> bool {
        self.fit_costs.len() < self.hosts || self.members.iter().any(|it| it.left > 0)
    }

    /// Fills a host with at most `most` servers of each kind. Returns whether it was the last one needed.
    fn fill(&mut self, state: &State<'_>, host: usize, most: usize, fit_cost: u64) -> bool {
        let mut can_be = false;
        for it in &mut self.members {
            if it.left == 0 && can_be {
                continue;
            }
            let kind = &state.model.kinds[it.kind];
            if !state.domains.is_open(it.kind, host)
                || kind.settled > 0 && kind.moves(host) > it.moves
            {
                continue;
            }
            can_be = true;
            let most = most / usize::try_from(it.servers.max(1)).unwrap_or(usize::MAX);
            let fit = state.domains.slots(it.kind, host).min(it.left).min(most);
            if fit > 0 {
                it.last = fit_cost;
            }
            it.left -= fit;
            it.sum += fit_cost * it.servers * fit as u64;
        }
        if can_be && self.fit_costs.len() < self.hosts {
            self.fit_costs.push(fit_cost);
        }
        !self.is_open()
    }

    /// The larger of two bounds: kinds alone, and one host per bundle.
    fn least(&self) -> u64 {
        let alone = self.members.iter().map(|it| it.sum).sum();
        u64::max(alone, self.apart(None))
    }

    /// The same without one bundle of a kind.
    fn least_without(&self, kind: usize) -> u64 {
        let Some(one) = self.members.iter().find(|it| it.kind == kind) else {
            return self.least();
        };
        let alone: u64 = self.members.iter().map(|it| it.sum).sum();
        u64::max(alone - one.last * one.servers, self.apart(Some(kind)))
    }

    fn apart(&self, without: Option<usize>) -> u64 {
        let servers = self.servers(without);
        let apart = self.fit_costs.iter().zip(&servers).map(|(cost, servers)| cost * servers).sum();
        u64::max(apart, self.few.as_ref().and_then(|few| few.least(&servers)).unwrap_or(0))
    }

    fn is_in_few(&self) -> bool {
        self.few.as_ref().is_none_or(|few| few.least(&self.servers(None)).is_some())
    }

    /// The servers of each bundle, descending, without one bundle of a kind.
    fn servers(&self, without: Option<usize>) -> Vec<u64> {
        let servers = self.members.iter().map(|it| {
            let bundles = it.bundles - usize::from(without == Some(it.kind));
            std::iter::repeat_n(it.servers, bundles)
        });
        let mut servers: Vec<u64> = servers.flatten().collect();
        servers.sort_unstable_by(|one, other| other.cmp(one));
        servers
    }
}

/// Lower bounds on the fit costs of 0, 1, 2, ... hosts: in open units, and in units to be opened.
#[derive(Debug)]
struct FitInFewUnits {
    known: Vec<u64>,
    more: Vec<u64>,
}

impl FitInFewUnits {
    /// The bounds for a number of units to be opened, if the table has them.
    fn of(
        state: &State<'_>,
        limits: &Limits,
        (rule, (units, only_in_use)): (usize, (u64, bool)),
        budget: &mut Budget<'_>,
    ) -> Option<Self> {
        let tables = if only_in_use { &limits.in_use.few } else { &limits.all.few };
        let UnitFitTable(tables) = tables.get(rule)?;
        let more = tables.get(usize::try_from(units).ok()?.checked_sub(1)?)?;
        let model = state.model;
        let counted = model.packed()?;
        let kinds: Vec<usize> =
            (0..model.kinds.len()).filter(|kind| limits.cliques[*kind] == Some(rule)).collect();
        let hosts = || state.score.open_units(0).iter().flat_map(|unit| counted.hosts(*unit));
        if budget.is_spent_after(model.kinds.len() + hosts().count() * (2 + kinds.len())) {
            return None;
        }
        let hosts = hosts().copied();
        let hosts = hosts.filter(|host| !only_in_use || state.domains.is_in_use(*host));
        Some(Self { known: sums(state, &kinds, hosts, more.len() - 1), more: more.clone() })
    }

    /// A lower bound on the fit of bundles with a host each, given their numbers of servers in
    /// descending order. `None` if there are too few hosts.
    fn least(&self, servers: &[u64]) -> Option<u64> {
        let Some(fewest) = servers.last() else { return Some(0) };
        let all = together(&self.known, &self.more, servers.len());
        let one = together(&self.known, &self.more, 1);
        if all == NONE || one == NONE {
            return None;
        }
        // The hosts of the larger bundles are unknown: at best, each gets the cheapest one.
        let larger = servers.iter().map(|it| it - fewest).sum::<u64>();
        Some(all * fewest + one * larger)
    }
}
