//! Affinity groups among many racks.

use super::super::{Level, Outcome, PlacementProblem, Rule, fit, solve};
use super::{hosts, pools, servers};

const RACKS: u32 = 120;
const HOSTS_IN_RACK: usize = 8;
const GROUPS: usize = 4;
const SERVERS: usize = 12;

/// Groups of servers that are in one rack each, and racks for each group alone. The fullest host of a rack is not
/// representative.
fn groups_and_racks() -> PlacementProblem {
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut free = Vec::new();
    for rack in 0..RACKS {
        let most = 8 + random(24);
        free.extend((0..HOSTS_IN_RACK).map(|_| (2 + random(most), rack)));
    }
    let hosts = hosts(&free);
    let mut problem =
        PlacementProblem { pools: pools(&hosts), hosts, ..PlacementProblem::default() };
    for host in &mut problem.hosts {
        host.in_use = true;
    }
    for group in 0..GROUPS {
        let from = problem.servers.len();
        let is_allowed = |(_, rack): &(u64, u32)| *rack as usize % GROUPS == group;
        let allowed: Vec<bool> = free.iter().map(is_allowed).collect();
        for mut server in servers(SERVERS, 2, free.len()) {
            server.allowed_hosts = allowed.clone().into();
            problem.servers.push(server);
        }
        problem.rules.push(Rule::Together(Level::Rack, (from..problem.servers.len()).collect()));
    }
    problem
}

/// The least fit of a group in any of its racks: its servers fill the fullest hosts first.
fn least(problem: &PlacementProblem, group: usize) -> u64 {
    let fit = fit::fit_costs(problem);
    let in_rack = |rack: u32| {
        let hosts = problem.hosts.iter().zip(&fit).filter(|(host, _)| host.rack == Some(rack));
        let mut slots: Vec<u64> = hosts
            .flat_map(|(host, fit)| std::iter::repeat_n(*fit, (host.free[0] / 2) as usize))
            .collect();
        slots.sort_unstable();
        (slots.len() >= SERVERS).then(|| slots[..SERVERS].iter().sum::<u64>())
    };
    (0..RACKS).filter(|rack| *rack as usize % GROUPS == group).filter_map(in_rack).min().unwrap()
}

#[test]
fn the_best_rack_is_found_for_each_group() {
    let problem = groups_and_racks();
    let mut looks = 0;
    let outcome = solve(&problem, || {
        looks += 1;
        looks > 10_000
    });
    let Outcome::Placed(found) = outcome else { panic!("it fits") };
    let fit: u64 = (0..GROUPS).map(|group| least(&problem, group)).sum();
    assert_eq!(found.cost.fit, fit);
}
