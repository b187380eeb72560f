//! Placement in two steps, beside searches for each step and for both at once.

use proptest::prelude::*;

use super::exhaustive::{found_soon, problems};
use super::{broken, hosts_of, is_drawn};
use crate::solver::problem::{AllowedHosts, Goal, PlacementPolicy, PlacementProblem};
use crate::solver::{Outcome, TwoSteps, evaluation, solve_within};

/// The problem without the rules and the servers of the second step.
fn first_step(problem: &PlacementProblem, is_second: &[bool]) -> PlacementProblem {
    let servers: Vec<usize> =
        (0..problem.servers.len()).filter(|server| !is_second[*server]).collect();
    let position = |server: usize| servers.iter().position(|known| *known == server);
    let mut first = problem.clone();
    first.servers = servers.iter().map(|server| problem.servers[*server].clone()).collect();
    first.rules = problem.rules.iter().map(|rule| rule.restricted(position)).collect();
    for soft in &mut first.soft_rules {
        for part in &mut soft.parts {
            *part = part.iter().filter_map(|server| position(*server)).collect();
        }
    }
    // Hosts on which no server fits count for nothing.
    for (nth, host) in first.hosts.iter_mut().enumerate() {
        if first.servers.iter().all(|server| server.ways.on(nth).is_none()) {
            host.free.fill(0);
            host.capacity.fill(0);
            host.in_use = true;
        }
    }
    first
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// There is a placement if there is one at all. It keeps all rules; the first servers are at their best unless the
    /// others then have no place; and the others are at their best beside them.
    #[test]
    fn servers_come_first_and_then_the_others(
        problem in problems(),
        is_second in prop::collection::vec(prop::bool::ANY, 8),
        goal in prop::sample::select(Goal::ALL.to_vec()),
    ) {
        let policy = PlacementPolicy::of_hosts(goal);
        let steps = TwoSteps::new(&problem, |server| is_second[server], policy);
        let mut never = || false;
        let found = found_soon(|mut budget| {
            let mut second = crate::solver::Budget::new(&mut never);
            steps.solve(&[], &mut budget, &mut second)
        })?;
        let at_once = found_soon(|mut budget| solve_within(&problem, &mut budget))?;
        let Outcome::Placed(found) = found else {
            prop_assert_eq!((found, at_once), (Outcome::Impossible, Outcome::Impossible));
            return Ok(());
        };
        let places = hosts_of(&found);
        prop_assert_eq!(broken(&problem, &places), None);
        prop_assert!(is_drawn(&problem, &found));
        let first = first_step(&problem, &is_second);
        let of_first: Vec<usize> =
            (0..places.len()).filter(|it| !is_second[*it]).map(|it| places[it]).collect();
        prop_assert_eq!(&found.cost, &evaluation::cost(&first, &of_first));
        let Outcome::Placed(best) = found_soon(|mut budget| solve_within(&first, &mut budget))?
        else {
            panic!("the first step has no solution, and both have one");
        };
        prop_assert_eq!(&found.bound, &best.cost);
        prop_assert_eq!(found.stopped.is_none(), found.cost == found.bound);
        // The second step, with the first servers where they are.
        let pinned = |places: &[usize]| {
            let mut second = PlacementProblem { policy, ..problem.clone() };
            let mut places = places.iter();
            for (nth, server) in second.servers.iter_mut().enumerate() {
                if !is_second[nth] {
                    server.allowed_hosts = AllowedHosts::Only(*places.next().unwrap());
                }
            }
            second
        };
        let second = pinned(&of_first);
        let Outcome::Placed(others) = found_soon(|mut budget| solve_within(&second, &mut budget))?
        else {
            panic!("the second step has no solution, and was solved");
        };
        prop_assert_eq!(evaluation::cost(&second, &places), others.cost);
    }
}
