//! Placement in two steps: most servers by the policy of the problem, and then the others by a policy of their own,
//! with the first ones on their hosts.
//!
//! The first step leaves out the other servers, so its bound is one for the whole problem. If its placement leaves no
//! room for the others, a search for all servers at once decides whether there is one that does.

use std::collections::HashSet;
use std::sync::Arc;

use super::budget::{Budget, Spent};
use super::evaluation;
use super::problem::{AllowedHosts, Host, PlacementPolicy, PlacementProblem, Server};
use super::search::{solve_other, solve_within};
use super::solution::{Outcome, Solution};

/// A problem whose servers are placed in two steps.
#[derive(Debug)]
pub struct TwoSteps<'p> {
    problem: &'p PlacementProblem,
    /// The problem of the first step.
    first: PlacementProblem,
    /// The servers of the first step, by their positions in the problem.
    servers: Vec<usize>,
    /// The policy of the second step.
    policy: PlacementPolicy,
}

impl<'p> TwoSteps<'p> {
    /// Divides a problem. `is_second`: for each server, whether it belongs to the second step, whose policy is
    /// `policy`.
    pub fn new(
        problem: &'p PlacementProblem,
        is_second: impl Fn(usize) -> bool,
        policy: PlacementPolicy,
    ) -> Self {
        let servers: Vec<usize> =
            (0..problem.servers.len()).filter(|server| !is_second(*server)).collect();
        let position = |server: usize| servers.binary_search(&server).ok();
        let soft_rules = problem.soft_rules.iter();
        let first = PlacementProblem {
            pools: problem.pools.clone(),
            rules: problem.rules.iter().map(|rule| rule.restricted(position)).collect(),
            soft_rules: soft_rules.map(|rule| rule.restricted(position)).collect(),
            policy: problem.policy,
            hosts: counted_hosts(problem, &servers),
            servers: servers.iter().filter_map(|it| problem.servers.get(*it)).cloned().collect(),
        };
        Self { problem, first, servers, policy }
    }

    /// Places all servers other than on the `known` placements, each given by the host of each server; these differ
    /// in the servers of the first step. Cost and bound of the solution are those of the first step, and it has not
    /// [stopped](Solution::stopped) early if both steps are optimal.
    ///
    /// `Impossible` means that there is no placement; if there are known ones, that no other was found.
    pub fn solve(
        &self,
        known: &[Vec<usize>],
        first: &mut Budget<'_>,
        second: &mut Budget<'_>,
    ) -> Outcome {
        let mut known: Vec<Vec<usize>> = known.iter().map(|places| self.of_first(places)).collect();
        let is_other = !known.is_empty();
        loop {
            let found = match solve_other(&self.first, &known, first) {
                Outcome::Placed(found) => *found,
                ended @ (Outcome::Impossible | Outcome::OutOfTime) => return ended,
            };
            let places = found.hosts();
            match solve_within(&self.second(&places), second) {
                Outcome::Placed(all) => {
                    let stopped = found.stopped.or(all.stopped);
                    let assignments = all.assignments;
                    return placed(Solution { assignments, stopped, ..found });
                }
                Outcome::OutOfTime => return Outcome::OutOfTime,
                Outcome::Impossible if is_other => known.push(places),
                Outcome::Impossible => return self.at_once(found, second),
            }
        }
    }

    /// The hosts of the servers of the first step, of those of all servers.
    fn of_first(&self, places: &[usize]) -> Vec<usize> {
        self.servers.iter().filter_map(|server| places.get(*server).copied()).collect()
    }

    /// Places all servers at once, and then those of the second step again. `first` is the solution of the first step
    /// alone.
    fn at_once(&self, first: Solution, budget: &mut Budget<'_>) -> Outcome {
        let problem = PlacementProblem { hosts: self.first.hosts.clone(), ..self.problem.clone() };
        let all = match solve_within(&problem, budget) {
            Outcome::Placed(all) => *all,
            ended @ (Outcome::Impossible | Outcome::OutOfTime) => return ended,
        };
        let places = self.of_first(&all.hosts());
        let cost = evaluation::cost(&self.first, &places);
        let bound = first.bound;
        let (assignments, stopped) = match solve_within(&self.second(&places), budget) {
            Outcome::Placed(second) => (second.assignments, second.stopped),
            Outcome::Impossible | Outcome::OutOfTime => (all.assignments, budget.spent()),
        };
        let stopped = if bound < cost { budget.spent().or(Some(Spent::Idle)) } else { stopped };
        placed(Solution { assignments, cost, bound, stopped })
    }

    /// The problem of the second step: all servers, with those of the first step on their hosts.
    fn second(&self, places: &[usize]) -> PlacementProblem {
        let mut servers = self.problem.servers.clone();
        for (server, host) in self.servers.iter().zip(places) {
            if let Some(server) = servers.get_mut(*server) {
                server.allowed_hosts = AllowedHosts::Only(*host);
            }
        }
        PlacementProblem { servers, policy: self.policy, ..self.problem.clone() }
    }
}

fn placed(solution: Solution) -> Outcome {
    Outcome::Placed(Box::new(solution))
}

/// The hosts of a problem, of which those that fit none of these servers do not count for any policy.
fn counted_hosts(problem: &PlacementProblem, servers: &[usize]) -> Vec<Host> {
    let mut is_fitting = vec![false; problem.hosts.len()];
    let servers: Vec<&Server> = servers.iter().filter_map(|it| problem.servers.get(*it)).collect();
    let mut known = HashSet::new();
    for server in servers {
        if known.insert(Arc::as_ptr(&server.ways)) {
            for (host, _) in server.ways.by_host() {
                if let Some(is_fitting) = is_fitting.get_mut(host) {
                    *is_fitting = true;
                }
            }
        }
    }
    let host = |(host, is_fitting): (&Host, bool)| {
        if is_fitting {
            return host.clone();
        }
        let none = |amounts: &Vec<u64>| vec![0; amounts.len()];
        let (free, capacity) = (none(&host.free), none(&host.capacity));
        Host { free, capacity, in_use: true, ..host.clone() }
    };
    problem.hosts.iter().zip(is_fitting).map(host).collect()
}
