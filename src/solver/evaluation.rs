//! What a complete placement costs. This is the meaning of [`Cost`]; the search computes the same step
//! by step.

use super::counted::CountedUnits;
use super::fit::fit_costs;
use super::problem::{Goal, PlacementProblem, Server};
use super::solution::{Cost, Counts};
use super::utilisation::{Addition, Utilisation};

/// The cost of a placement, given the host of each server.
pub(super) fn cost(problem: &PlacementProblem, places: &[usize]) -> Cost {
    let goal = problem.policy.goal;
    let is_moved =
        |(server, place): (&Server, &usize)| server.current_host.is_some_and(|home| home != *place);
    let moved = problem.servers.iter().zip(places).filter(|it| is_moved(*it)).count();
    let levels = CountedUnits::of_policy(problem);
    let counts = |level: usize| {
        let counted = levels.get(level).filter(|_| goal == Goal::Spread);
        Counts::of(counted.map_or_else(Vec::new, |units| in_units(units, places)))
    };
    let load = |level: usize| {
        let counted = levels.get(level).filter(|_| goal == Goal::Balance);
        counted.map_or(0, |units| load(problem, units, places))
    };
    let packed = levels.first().filter(|_| goal == Goal::Pack);
    let units = packed.map_or(0, |units| occupied(in_units(units, places)));
    let mut hosts = places.to_vec();
    hosts.sort_unstable();
    hosts.dedup();
    let is_new = |host: &&usize| problem.hosts.get(**host).is_some_and(|host| !host.in_use);
    let new_hosts = hosts.iter().filter(is_new).count();
    let fit_costs = fit_costs(problem);
    Cost {
        moved: moved as u64,
        per_unit: counts(0),
        per_host: counts(1),
        units,
        new_hosts: if goal == Goal::Pack { new_hosts as u64 } else { 0 },
        load: load(0),
        host_load: load(1),
        fit: places.iter().filter_map(|host| fit_costs.get(*host)).sum(),
    }
}

/// The servers in each unit.
fn in_units(units: &CountedUnits, places: &[usize]) -> Vec<u64> {
    let mut counts = vec![0; units.count()];
    for place in places {
        if let Some(count) = counts.get_mut(units.unit(*place)) {
            *count += 1;
        }
    }
    counts
}

fn occupied(counts: Vec<u64>) -> u64 {
    counts.into_iter().filter(|count| *count > 0).count() as u64
}

/// What the servers add to the load of the units.
fn load(problem: &PlacementProblem, units: &CountedUnits, places: &[usize]) -> u64 {
    let utilisation = Utilisation::of(problem, units);
    let mut used = utilisation.initial.clone();
    let mut load = 0_u64;
    for (server, place) in problem.servers.iter().zip(places) {
        let unit = units.unit(*place);
        let amounts = std::sync::Arc::clone(&server.amounts);
        let it = [Addition { amounts, counted_on: server.counted_on(), servers: 1 }];
        let is_counted = |host: usize| host == *place;
        load = load.saturating_add(utilisation.added((unit, &used), 0, &it, is_counted));
        for class in 0..utilisation.classes() {
            if let Some(used) = used.get_mut(unit * utilisation.classes() + class) {
                *used += utilisation.shares((unit, class), &it, is_counted);
            }
        }
    }
    load
}
