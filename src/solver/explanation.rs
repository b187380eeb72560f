//! Explains why a problem has no solution: finds a minimal set of rules and servers that contradict each other (an
//! irreducible infeasible subset).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::budget::Budget;
use super::model::Units;
use super::problem::{Level, PlacementProblem, Rule, Server, Ways};
use super::search::{Objective, search};
use super::solution::Outcome;
use super::state::fits_alone;

/// Demands that cannot be met together. Without any one of them, the others can be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflict {
    /// Rules, by their position in the problem.
    pub rules: Vec<usize>,
    /// The servers that the contradiction needs, by their position.
    pub servers: Vec<usize>,
    /// Whether every one of these demands is proven to be necessary. If not, the time was up first.
    pub is_minimal: bool,
}

/// The units that a rule needs, and those that are available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitCount {
    /// The rule, by its position.
    pub rule: usize,
    /// Its level.
    pub level: Level,
    /// The minimum number of units that it needs: one for each part of a diversity rule; enough for the servers of
    /// a rule that counts them; otherwise one.
    pub needed: usize,
    /// The number of units in which one of its servers could be.
    pub available: usize,
    /// These units, each represented by the first of its hosts where one of the servers could be.
    pub units: Vec<usize>,
}

/// Finds demands of an impossible problem that contradict each other. A demand is dropped if the others are still
/// impossible; a demand for which this cannot be decided in time is kept.
///
/// Small sets are tried first: one server that fits nowhere, all servers without rules, one rule alone. The result
/// is the smallest contradiction among these; if there is no such contradiction, the whole problem is reduced.
pub fn explain(problem: &PlacementProblem, mut is_time_up: impl FnMut() -> bool) -> Conflict {
    explain_within(problem, &mut Budget::new(&mut is_time_up))
}

/// The same, within a budget.
pub fn explain_within(problem: &PlacementProblem, budget: &mut Budget<'_>) -> Conflict {
    if let Some(server) = without_place(problem, budget) {
        return Conflict { rules: Vec::new(), servers: vec![server], is_minimal: true };
    }
    let all: Vec<usize> = (0..problem.servers.len()).collect();
    let mut case = Subproblems::new(problem, budget);
    let mut sets: Vec<(Vec<usize>, Vec<usize>)> = vec![(Vec::new(), all.clone())];
    for (number, rule) in problem.rules.iter().enumerate() {
        let mut servers = rule.servers();
        servers.sort_unstable();
        servers.dedup();
        sets.push((vec![number], servers));
    }
    let mut found: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (rules, servers) in sets {
        if case.is_impossible(&rules, &servers) {
            let servers = case.minimal_servers(&rules, &servers);
            // The remaining servers may lack capacity even without the rule.
            if rules.is_empty() || !case.is_impossible(&[], &servers) {
                found.push((rules, servers));
            } else {
                found.push((Vec::new(), case.minimal_servers(&[], &servers)));
            }
        }
    }
    let smallest = found.into_iter().min_by_key(|(rules, servers)| rules.len() + servers.len());
    let (rules, servers) = smallest.unwrap_or_else(|| {
        let rules = (0..problem.rules.len()).collect();
        let rules = minimal_subset(rules, &mut |rules| case.is_known(rules, &all));
        let servers = case.minimal_servers(&rules, &all);
        (rules, servers)
    });
    // Dropping demands one after the other is right only if fewer demands are never harder to meet.
    if matches!(case.outcome(&rules, &servers), Outcome::Placed(_)) {
        let rules = (0..problem.rules.len()).collect();
        return Conflict { rules, servers: all, is_minimal: false };
    }
    let is_minimal = !case.budget.is_spent() && !case.was_undecided;
    Conflict { rules, servers, is_minimal }
}

/// Returns whether some servers provably cannot be placed under some rules; `None` if the budget was spent first.
/// Both are given by their positions in the problem.
pub fn is_impossible(
    problem: &PlacementProblem,
    rules: &[usize],
    servers: &[usize],
    budget: &mut Budget<'_>,
) -> Option<bool> {
    Subproblems::new(problem, budget).is_known(rules, servers)
}

/// For some rules, the units that some servers need, and those in which one of them could be.
pub fn count_units(
    problem: &PlacementProblem,
    rules: &[usize],
    servers: &[usize],
    budget: &mut Budget<'_>,
) -> Vec<UnitCount> {
    let units = Units::of(&problem.hosts);
    let members: HashSet<usize> = servers.iter().copied().collect();
    let counts = rules.iter().filter_map(|it| counted(problem, &units, *it, &members, budget));
    counts.collect()
}

/// The hosts that a server could be on alone. The list is incomplete if the budget is spent.
pub fn hosts_for(
    problem: &PlacementProblem,
    server: &Server,
    budget: &mut Budget<'_>,
) -> Vec<usize> {
    let mut left = problem.free();
    let hosts = server.ways.by_host().map(|(host, _)| host);
    hosts
        .filter(|host| !budget.is_spent() && can_be(problem, server, *host, &mut left, budget))
        .collect()
}

/// A server that does not even fit alone.
fn without_place(problem: &PlacementProblem, budget: &mut Budget<'_>) -> Option<usize> {
    let mut left = problem.free();
    for (number, server) in problem.servers.iter().enumerate() {
        let mut hosts = server.ways.by_host();
        let fits = hosts
            .any(|(host, _)| budget.is_spent() || can_be(problem, server, host, &mut left, budget));
        if budget.is_spent() {
            return None;
        }
        if !fits {
            return Some(number);
        }
    }
    None
}

/// Returns whether a server alone fits on a host.
fn can_be(
    problem: &PlacementProblem,
    server: &Server,
    host: usize,
    left: &mut [u64],
    budget: &mut Budget<'_>,
) -> bool {
    server.allowed_hosts.has(host)
        && server
            .ways
            .on(host)
            .is_some_and(|supply| fits_alone(supply, &problem.pools, left, budget))
}

/// Parts of a problem, solved one after the other.
struct Subproblems<'p, 'c, 't> {
    problem: &'p PlacementProblem,
    part: PlacementProblem,
    budget: &'c mut Budget<'t>,
    /// Whether any search ended undecided.
    was_undecided: bool,
}

impl<'p, 'c, 't> Subproblems<'p, 'c, 't> {
    fn new(problem: &'p PlacementProblem, budget: &'c mut Budget<'t>) -> Self {
        let (hosts, pools) = (problem.hosts.clone(), problem.pools.clone());
        Self {
            problem,
            part: PlacementProblem { hosts, pools, ..PlacementProblem::default() },
            budget,
            was_undecided: false,
        }
    }

    /// Returns whether these servers provably cannot be placed under these rules.
    fn is_impossible(&mut self, rules: &[usize], servers: &[usize]) -> bool {
        self.outcome(rules, servers) == Outcome::Impossible
    }

    /// The outcome of a search for these servers under these rules.
    fn outcome(&mut self, rules: &[usize], servers: &[usize]) -> Outcome {
        if self.budget.is_spent_now() {
            return Outcome::OutOfTime;
        }
        let mut position = vec![None; self.problem.servers.len()];
        for (nth, server) in servers.iter().enumerate() {
            if let Some(position) = position.get_mut(*server) {
                *position = Some(nth);
            }
        }
        let position = |server: usize| position.get(server).copied().flatten();
        let rules = rules.iter().filter_map(|it| self.problem.rules.get(*it));
        self.part.rules = rules.map(|rule| rule.restricted(position)).collect();
        let servers = servers.iter().filter_map(|it| self.problem.servers.get(*it));
        self.part.servers = servers.cloned().collect();
        let outcome = search(&self.part, self.budget, Objective::Feasible);
        self.was_undecided |= outcome == Outcome::OutOfTime;
        outcome
    }

    /// The same; `None` if the budget was spent before a decision.
    fn is_known(&mut self, rules: &[usize], servers: &[usize]) -> Option<bool> {
        let is_impossible = self.is_impossible(rules, servers);
        (is_impossible || !self.budget.is_spent()).then_some(is_impossible)
    }

    /// A minimal set of these servers that still cannot be placed.
    fn minimal_servers(&mut self, rules: &[usize], servers: &[usize]) -> Vec<usize> {
        let groups = self.groups(rules, servers);
        let servers_of = |numbers: &[usize]| -> Vec<usize> {
            let mut servers: Vec<usize> =
                numbers.iter().filter_map(|it| groups.get(*it)).flatten().copied().collect();
            servers.sort_unstable();
            servers
        };
        let kept = minimal_subset((0..groups.len()).collect(), &mut |numbers| {
            if self.budget.is_spent() { None } else { self.is_known(rules, &servers_of(numbers)) }
        });
        let mut minimal = servers_of(&kept);
        for group in kept.iter().filter_map(|it| groups.get(*it)) {
            if self.budget.is_spent_after(minimal.len() + group.len()) {
                break;
            }
            let own: HashSet<usize> = group.iter().copied().collect();
            let others: Vec<usize> =
                minimal.iter().copied().filter(|server| !own.contains(server)).collect();
            // At least one is needed; otherwise the group would have been dropped.
            let (mut too_few, mut enough) = (0, group.len());
            while enough - too_few > 1 && !self.budget.is_spent() {
                let some = usize::midpoint(too_few, enough);
                let mut servers: Vec<usize> = group.iter().take(some).copied().collect();
                servers.extend(&others);
                servers.sort_unstable();
                if self.is_impossible(rules, &servers) {
                    (enough, minimal) = (some, servers);
                } else {
                    too_few = some;
                }
            }
        }
        minimal
    }

    /// Groups of interchangeable servers.
    fn groups(&mut self, rules: &[usize], servers: &[usize]) -> Vec<Vec<usize>> {
        // Ways and allowed hosts are compared by identity: equal servers share them.
        type Sort = (*const Ways, Result<usize, *const bool>, Option<usize>);
        type Likeness = (Sort, Vec<(usize, Option<usize>)>);
        let mut bound: Vec<Vec<(usize, Option<usize>)>> =
            vec![Vec::new(); self.problem.servers.len()];
        for number in rules {
            let Some(it) = self.problem.rules.get(*number) else { continue };
            let is_apart = matches!(it, Rule::Apart(..));
            for (part, servers) in it.parts().iter().enumerate() {
                self.budget.is_spent_after(1 + servers.len());
                let role = if is_apart && servers.len() == 1 { None } else { Some(part) };
                for server in servers {
                    if let Some(bound) = bound.get_mut(*server) {
                        bound.push((*number, role));
                    }
                }
            }
        }
        let mut known: HashMap<Likeness, usize> = HashMap::new();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for server in servers {
            let Some(it) = self.problem.servers.get(*server) else { continue };
            let bound = bound.get_mut(*server).map(std::mem::take).unwrap_or_default();
            self.budget.is_spent_after(4 + bound.len());
            let open = it.allowed_hosts.identity();
            let likeness = ((Arc::as_ptr(&it.ways), open, it.current_host), bound);
            let next = groups.len();
            let group = *known.entry(likeness).or_insert(next);
            if group == next {
                groups.push(Vec::new());
            }
            if let Some(group) = groups.get_mut(group) {
                group.push(*server);
            }
        }
        groups
    }
}

/// A minimal subset of impossible demands that is still impossible, as far as that can be decided.
/// Fewer demands must never be harder to meet.
pub fn minimal_subset(
    demands: Vec<usize>,
    is_impossible: &mut dyn FnMut(&[usize]) -> Option<bool>,
) -> Vec<usize> {
    minimal(&[], true, demands, is_impossible)
}

/// A minimal subset of some demands that is impossible together with the given ones (the `QuickXplain` algorithm):
/// finds the necessary demands of the second half given the whole first half, then those of the first half given
/// these. The given demands are tested alone only if some were added since the last test. Undecided demands are
/// kept.
///
/// *Example.* Of the demands 1 to 8, only 3 and 7 contradict each other. Given 1 to 4, 7 is needed from 5 to 8.
/// Given 7, 3 is needed from 1 to 4. The result is {3, 7}.
fn minimal(
    given: &[usize],
    is_more_given: bool,
    demands: Vec<usize>,
    is_impossible: &mut dyn FnMut(&[usize]) -> Option<bool>,
) -> Vec<usize> {
    if demands.is_empty() {
        return Vec::new();
    }
    match is_more_given.then(|| is_impossible(given)) {
        Some(Some(true)) => return Vec::new(),
        Some(None) => return demands,
        Some(Some(false)) | None => {}
    }
    if demands.len() == 1 {
        return demands;
    }
    let (first, second) = demands.split_at(demands.len() / 2);
    let with = |more: &[usize]| [given, more].concat();
    let needed = minimal(&with(first), true, second.to_vec(), is_impossible);
    let mut others = minimal(&with(&needed), !needed.is_empty(), first.to_vec(), is_impossible);
    others.extend(needed);
    others.sort_unstable();
    others
}

/// Counts the units that a rule needs for some of its servers, and the units in which these could be.
fn counted(
    problem: &PlacementProblem,
    units: &Units,
    number: usize,
    servers: &HashSet<usize>,
    budget: &mut Budget<'_>,
) -> Option<UnitCount> {
    let rule = problem.rules.get(number)?;
    let needed = match rule {
        Rule::Together(..) | Rule::Alone(..) => 1,
        Rule::AtMost(_, most, bound) => {
            let count = bound.iter().filter(|it| servers.contains(it)).count();
            count.div_ceil(usize::try_from(*most).unwrap_or(usize::MAX).max(1))
        }
        // While a domain is empty, no other has more than the largest difference.
        Rule::Skew(skew) => {
            let count = skew.servers.iter().filter(|it| servers.contains(it)).count();
            count.div_ceil((skew.most as usize).max(1)).min(skew.domains.len())
        }
        Rule::Apart(_, parts) => {
            parts.iter().filter(|part| part.iter().any(|it| servers.contains(it))).count()
        }
    };
    let level = rule.level();
    let mut left = problem.free();
    let mut open: Vec<Option<usize>> = vec![None; units.count(level)];
    for server in rule.servers().into_iter().filter(|server| servers.contains(server)) {
        let Some(server) = problem.servers.get(server) else { continue };
        for host in 0..problem.hosts.len() {
            if budget.is_spent_after(1) {
                break;
            }
            let Some(open) = units.unit(level, host).and_then(|unit| open.get_mut(unit)) else {
                continue;
            };
            if open.is_none_or(|first| host < first)
                && can_be(problem, server, host, &mut left, budget)
            {
                *open = Some(host);
            }
        }
        if budget.is_spent() {
            break;
        }
    }
    let units: Vec<usize> = open.into_iter().flatten().collect();
    Some(UnitCount { rule: number, level, needed, available: units.len(), units })
}
