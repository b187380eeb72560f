//! The solver beside an exhaustive search, and the cases that greedy planners get wrong.

#![expect(clippy::cast_possible_truncation, reason = "the problems are tiny")]

use proptest::prelude::*;

use super::{
    Conflict, Cost, Host, Level, Outcome, Problem, Rule, Server, Solution, explain, solve,
};

fn never() -> bool {
    false
}

/// Hosts with this much of one class free, each in the rack that is named beside it.
fn hosts(free: &[(u64, u32)]) -> Vec<Host> {
    let host = |(free, rack): &(u64, u32)| Host {
        free: vec![*free],
        rack: Some(*rack),
        cluster: Some(0),
        in_use: false,
    };
    free.iter().map(host).collect()
}

fn servers(count: usize, need: u64, hosts: usize) -> Vec<Server> {
    let server = || Server { needs: vec![need], may_be_on: vec![true; hosts], is_on: None };
    std::iter::repeat_with(server).take(count).collect()
}

/// Two racks of two hosts with eight slots each: the site of the original's own tests.
fn site(count: usize, rules: Vec<Rule>) -> Problem {
    let hosts = hosts(&[(8, 0), (8, 0), (8, 1), (8, 1)]);
    Problem { servers: servers(count, 1, hosts.len()), hosts, rules, spread: false }
}

fn placed(problem: &Problem) -> Option<Solution> {
    match solve(problem, never) {
        Outcome::Placed(solution) => {
            assert_eq!(broken(problem, &solution.hosts), None);
            assert_eq!(solution.cost, solution.bound);
            Some(solution)
        }
        Outcome::Impossible => None,
        Outcome::OutOfTime => panic!("time does not run here"),
    }
}

/// What is wrong with a placement, by a literal reading of the problem.
fn broken(problem: &Problem, places: &[usize]) -> Option<&'static str> {
    let unit = |level: Level, server: usize| {
        let host = places[server];
        match level {
            Level::Host => Some(host as u32),
            Level::Rack => problem.hosts[host].rack,
            Level::Cluster => problem.hosts[host].cluster,
        }
    };
    for (number, host) in problem.hosts.iter().enumerate() {
        for (class, free) in host.free.iter().enumerate() {
            let on = problem.servers.iter().zip(places).filter(|(_, place)| **place == number);
            if on.map(|(server, _)| server.needs[class]).sum::<u64>() > *free {
                return Some("room");
            }
        }
    }
    if problem.servers.iter().zip(places).any(|(server, place)| !server.may_be_on[*place]) {
        return Some("where it may be");
    }
    for rule in &problem.rules {
        let level = rule.level();
        let bound = rule.servers();
        if bound.iter().any(|server| unit(level, *server).is_none()) {
            return Some("no unit");
        }
        let same = |one: usize, other: usize| unit(level, one) == unit(level, other);
        let fine = match rule {
            Rule::Together(_, servers) => servers.iter().all(|it| same(*it, servers[0])),
            Rule::Apart(_, parts) => parts.iter().enumerate().all(|(nth, part)| {
                let later = parts[nth + 1..].concat();
                part.iter().all(|one| later.iter().all(|other| !same(*one, *other)))
            }),
            Rule::Alone(_, servers) => (0..places.len())
                .filter(|other| !servers.contains(other))
                .all(|other| servers.iter().all(|one| !same(*one, other))),
        };
        if !fine {
            return Some("rule");
        }
    }
    None
}

/// The least cost of all placements, by trying every one.
fn exhaustive(problem: &Problem) -> Option<Cost> {
    let rooms = super::cost::rooms(problem);
    let (hosts, count) = (problem.hosts.len(), problem.servers.len());
    let mut best = None;
    for number in 0..hosts.pow(count as u32) {
        let places: Vec<usize> =
            (0..count).map(|nth| number / hosts.pow(nth as u32) % hosts).collect();
        if broken(problem, &places).is_some() {
            continue;
        }
        let mut used = places.clone();
        used.sort_unstable();
        used.dedup();
        let mut racks: Vec<u32> =
            used.iter().filter_map(|host| problem.hosts[*host].rack).collect();
        racks.sort_unstable();
        racks.dedup();
        let new = used.iter().filter(|host| !problem.hosts[**host].in_use).count() as u64;
        let moved =
            |(server, place): &(&Server, &usize)| server.is_on.is_some_and(|at| at != **place);
        let (all, racks) = (count as u64, racks.len() as u64);
        let cost = Cost {
            moved: problem.servers.iter().zip(&places).filter(moved).count() as u64,
            new_hosts: if problem.spread { all - new } else { new },
            racks: if problem.spread { all - racks.min(all) } else { racks },
            room: places.iter().map(|host| rooms[*host]).sum(),
        };
        best = Some(best.map_or(cost, |best: Cost| best.min(cost)));
    }
    best
}

fn problems() -> impl Strategy<Value = Problem> {
    let host = (prop::collection::vec(0_u64..5, 2), prop::option::of(0_u32..2), any::<bool>());
    let host = host.prop_map(|(free, rack, in_use)| Host { free, rack, cluster: rack, in_use });
    (prop::collection::vec(host, 1..5), 1_usize..6).prop_flat_map(|(hosts, count)| {
        let (here, there) = (hosts.len(), hosts.len());
        let server = (
            prop::collection::vec(0_u64..3, 2),
            prop::collection::vec(prop::bool::weighted(0.8), here),
            prop::option::weighted(0.3, 0..there),
        );
        let server =
            server.prop_map(|(needs, may_be_on, is_on)| Server { needs, may_be_on, is_on });
        let level = prop::sample::select(vec![Level::Host, Level::Rack, Level::Cluster]);
        let some = prop::sample::subsequence((0..count).collect::<Vec<_>>(), 1..=count);
        let rule =
            (level, some, 0..3_usize, 1..=2_usize).prop_map(|(level, members, kind, size)| {
                match kind {
                    0 => Rule::Together(level, members),
                    1 => Rule::Apart(level, members.chunks(size).map(<[usize]>::to_vec).collect()),
                    _ => Rule::Alone(level, members),
                }
            });
        (
            Just(hosts),
            prop::collection::vec(server, count),
            prop::collection::vec(rule, 0..4),
            any::<bool>(),
        )
            .prop_map(|(hosts, servers, rules, spread)| Problem {
                hosts,
                servers,
                rules,
                spread,
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn it_is_the_best_of_all_placements(problem in problems()) {
        let found = placed(&problem);
        prop_assert_eq!(found.as_ref().map(|it| it.cost), exhaustive(&problem));
    }

    #[test]
    fn a_conflict_is_one_and_is_the_smallest(problem in problems()) {
        if placed(&problem).is_some() {
            return Ok(());
        }
        let Conflict { rules, servers, .. } = explain(&problem, never);
        let with = |rules: &[usize], servers: &[usize]| {
            let kept = |list: &[usize]| -> Vec<usize> {
                list.iter().filter_map(|it| servers.iter().position(|known| known == it)).collect()
            };
            let rule = |number: &usize| match &problem.rules[*number] {
                Rule::Together(level, list) => Rule::Together(*level, kept(list)),
                Rule::Alone(level, list) => Rule::Alone(*level, kept(list)),
                Rule::Apart(level, parts) => {
                    Rule::Apart(*level, parts.iter().map(|part| kept(part)).collect())
                }
            };
            let part = Problem {
                hosts: problem.hosts.clone(),
                servers: servers.iter().map(|it| problem.servers[*it].clone()).collect(),
                rules: rules.iter().map(rule).collect(),
                spread: problem.spread,
            };
            placed(&part).is_some()
        };
        prop_assert!(!with(&rules, &servers));
        let without = |list: &[usize], it: usize| -> Vec<usize> {
            list.iter().copied().filter(|other| *other != it).collect()
        };
        for rule in &rules {
            prop_assert!(with(&without(&rules, *rule), &servers), "rule {}", rule);
        }
        for server in &servers {
            prop_assert!(with(&rules, &without(&servers, *server)), "server {}", server);
        }
    }
}

#[test]
fn the_fixtures_of_the_original() {
    let host = Level::Host;
    let rack = Level::Rack;
    let each = |count: usize| (0..count).map(|server| vec![server]).collect::<Vec<_>>();
    for (what, count, rules, fits) in [
        ("3 plain", 3, vec![], true),
        ("host affinity 8", 8, vec![Rule::Together(host, (0..8).collect())], true),
        ("host affinity 9", 9, vec![Rule::Together(host, (0..9).collect())], false),
        ("host diversity 4", 4, vec![Rule::Apart(host, each(4))], true),
        ("host diversity 5", 5, vec![Rule::Apart(host, each(5))], false),
        ("rack diversity 2", 2, vec![Rule::Apart(rack, each(2))], true),
        ("rack diversity 3", 3, vec![Rule::Apart(rack, each(3))], false),
        (
            "rack diversity of two host affinity pairs",
            4,
            vec![
                Rule::Together(host, vec![0, 1]),
                Rule::Together(host, vec![2, 3]),
                Rule::Apart(rack, vec![vec![0, 1], vec![2, 3]]),
            ],
            true,
        ),
        (
            "rack affinity over host diversity of 2",
            2,
            vec![Rule::Together(rack, vec![0, 1]), Rule::Apart(host, each(2))],
            true,
        ),
        (
            "rack affinity over host diversity of 3",
            3,
            vec![Rule::Together(rack, vec![0, 1, 2]), Rule::Apart(host, each(3))],
            false,
        ),
        (
            "host affinity 3 inside rack affinity 6",
            6,
            vec![Rule::Together(host, vec![0, 1, 2]), Rule::Together(rack, (0..6).collect())],
            true,
        ),
        (
            "host affinity and host diversity of the same pair",
            2,
            vec![Rule::Together(host, vec![0, 1]), Rule::Apart(host, each(2))],
            false,
        ),
        ("rack exclusivity beside a plain server", 3, vec![Rule::Alone(rack, vec![0, 1])], true),
    ] {
        assert_eq!(placed(&site(count, rules)).is_some(), fits, "{what}");
    }
    assert_eq!(placed(&site(3, Vec::new())).unwrap().cost.new_hosts, 1);
}

/// The small server can only be where the larger one would be placed first.
#[test]
fn the_dead_end_of_greedy_planners_is_none() {
    let hosts = hosts(&[(2, 0), (3, 0)]);
    let mut servers = servers(2, 2, 2);
    servers[1].needs = vec![1];
    servers[1].may_be_on = vec![true, false];
    let problem = Problem { hosts, servers, rules: Vec::new(), spread: false };
    assert_eq!(placed(&problem).unwrap().hosts, [1, 0]);
}

#[test]
fn overlapping_affinities_are_one() {
    let rules =
        vec![Rule::Together(Level::Host, vec![0, 1]), Rule::Together(Level::Host, vec![1, 2])];
    let hosts = placed(&site(3, rules)).unwrap().hosts;
    assert!(hosts.iter().all(|host| *host == hosts[0]));
}

#[test]
fn who_can_stay_stays() {
    let mut problem = site(3, vec![Rule::Apart(Level::Host, vec![vec![0], vec![1], vec![2]])]);
    for (server, at) in problem.servers.iter_mut().zip([3, 3, 1]) {
        server.is_on = Some(at);
    }
    let solution = placed(&problem).unwrap();
    assert_eq!(solution.cost.moved, 1);
    assert_eq!(solution.hosts[2], 1);
}

#[test]
fn spreading_is_packing_reversed() {
    let packed = placed(&site(4, Vec::new())).unwrap();
    let spread = placed(&Problem { spread: true, ..site(4, Vec::new()) }).unwrap();
    let different = |hosts: &[usize]| {
        let mut hosts = hosts.to_vec();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len()
    };
    assert_eq!((different(&packed.hosts), different(&spread.hosts)), (1, 4));
}

#[test]
fn a_conflict_says_what_is_needed_and_what_there_is() {
    let apart = Rule::Apart(Level::Rack, vec![vec![0], vec![1], vec![2]]);
    let problem = site(4, vec![Rule::Together(Level::Cluster, vec![0, 3]), apart]);
    let conflict = explain(&problem, never);
    assert_eq!((conflict.rules, conflict.servers), (vec![1], vec![0, 1, 2]));
    assert_eq!((conflict.counts[0].needed, conflict.counts[0].available), (3, 2));
}

#[test]
fn time_that_is_up_ends_it() {
    let mut problem = site(30, Vec::new());
    for (nth, server) in problem.servers.iter_mut().enumerate() {
        server.needs = vec![1 + u64::from(nth % 2 == 0)];
        server.may_be_on[nth % 4] = false;
    }
    problem.hosts.iter_mut().for_each(|host| host.free = vec![12]);
    let mut looks = 0;
    let outcome = solve(&problem, || {
        looks += 1;
        looks > 40
    });
    let Outcome::Placed(solution) = outcome else { panic!("{outcome:?}") };
    assert!(broken(&problem, &solution.hosts).is_none() && solution.bound <= solution.cost);
}
