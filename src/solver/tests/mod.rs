//! Cases that greedy planners get wrong, and hosts that are trees.

#![expect(clippy::cast_possible_truncation, reason = "the problems are tiny")]

mod affinity;
mod exhaustive;
mod lagrangian;
mod room;
mod steps;
mod threads;

use std::sync::Arc;

use super::{
    AllowedHosts, Budget, Choice, Conditions, Conflict, Counts, Draws, Goal, Host, Level, Outcome,
    PlacementPolicy, PlacementProblem, Pool, Rule, Server, Skew, SoftRule, SoftRuleKind, Solution,
    Supply, UnitCount, Way, Ways, count_units, explain, solve,
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
        ..Host::default()
    };
    free.iter().map(host).collect()
}

/// The pool of each of these hosts.
fn pools(hosts: &[Host]) -> Vec<Pool> {
    hosts.iter().map(|host| Pool { class: 0, free: host.free[0] }).collect()
}

/// The ways of a size that draws on the pool of its host.
fn one_way(need: u64, hosts: usize) -> Arc<Ways> {
    Arc::new((0..hosts).map(|host| (host, Supply::One(Draws::from([(host, need)])))).collect())
}

/// The ways of a size that is supplied by one provider: for each host, the draws on each possible one.
fn ways(hosts: &[Vec<Draws>]) -> Ways {
    let supply = |draws: &Vec<Draws>| match draws.as_slice() {
        [] => None,
        [only] => Some(Supply::One(only.clone())),
        several => Some(choice(vec![several.to_vec()], Conditions::default())),
    };
    hosts.iter().enumerate().filter_map(|(host, draws)| Some((host, supply(draws)?))).collect()
}

/// Parts that several providers can supply, with no relation between the providers: the draws on each.
fn choice(parts: Vec<Vec<Draws>>, conditions: Conditions) -> Supply {
    let way =
        |(provider, draws): (u32, Draws)| Way { draws, provider, last: provider, ..Way::default() };
    let part = |draws: Vec<Draws>| (0_u32..).zip(draws).map(way);
    let parts = parts.into_iter().map(part).collect();
    Supply::Choice(Box::new(Choice { parts, conditions: conditions.into(), ..Choice::default() }))
}

fn servers(count: usize, need: u64, hosts: usize) -> Vec<Server> {
    let ways = one_way(need, hosts);
    let allowed_hosts = vec![true; hosts].into();
    vec![Server { ways, allowed_hosts, ..Server::default() }; count]
}

fn hosts_of(solution: &Solution) -> Vec<usize> {
    solution.assignments.iter().map(|place| place.host).collect()
}

/// Two racks of two hosts with eight slots each: the site of the original's own tests.
fn site(count: usize, rules: Vec<Rule>) -> PlacementProblem {
    let hosts = hosts(&[(8, 0), (8, 0), (8, 1), (8, 1)]);
    let (pools, servers) = (pools(&hosts), servers(count, 1, hosts.len()));
    PlacementProblem { hosts, pools, servers, rules, ..PlacementProblem::default() }
}

fn placed(problem: &PlacementProblem) -> Option<Solution> {
    best(problem, solve(problem, never))
}

/// The result of a search that was not cut short.
fn best(problem: &PlacementProblem, outcome: Outcome) -> Option<Solution> {
    match outcome {
        Outcome::Placed(solution) => {
            assert_eq!(broken(problem, &hosts_of(&solution)), None);
            assert!(is_drawn(problem, &solution));
            assert_eq!(solution.cost, solution.bound);
            Some(*solution)
        }
        Outcome::Impossible => None,
        Outcome::OutOfTime => panic!("time does not run here"),
    }
}

/// Whether the pools have what the ways of a placement draw.
fn is_drawn(problem: &PlacementProblem, solution: &Solution) -> bool {
    let mut left: Vec<u64> = problem.pools.iter().map(|pool| pool.free).collect();
    problem.servers.iter().zip(&solution.assignments).all(|(server, place)| {
        let draws = server.ways.on(place.host).and_then(|supply| supply.drawn(&place.ways));
        draws.is_some_and(|draws| {
            draws.iter().all(|(pool, amount)| {
                let rest = left[*pool].checked_sub(*amount);
                left[*pool] = rest.unwrap_or(0);
                rest.is_some()
            })
        })
    })
}

/// The first condition other than capacity that a placement violates, by a literal reading of the problem.
fn broken(problem: &PlacementProblem, places: &[usize]) -> Option<&'static str> {
    let unit = |level: Level, server: usize| {
        let host = places[server];
        match level {
            Level::Host => Some(host as u32),
            Level::Rack => problem.hosts[host].rack,
            Level::Cluster => problem.hosts[host].cluster,
        }
    };
    if problem.servers.iter().zip(places).any(|(server, place)| !server.allowed_hosts.has(*place)) {
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
            Rule::AtMost(..) | Rule::Skew(_) => rule.holds(problem, places),
        };
        assert_eq!(fine, rule.holds(problem, places), "{rule:?}");
        if !fine {
            return Some("rule");
        }
    }
    None
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
    servers[1].ways = one_way(1, 2);
    servers[1].allowed_hosts = vec![true, false].into();
    let pools = pools(&hosts);
    let problem = PlacementProblem {
        hosts,
        pools,
        servers,
        rules: Vec::new(),
        ..PlacementProblem::default()
    };
    assert_eq!(hosts_of(&placed(&problem).unwrap()), [1, 0]);
}

#[test]
fn overlapping_affinities_are_one() {
    let rules =
        vec![Rule::Together(Level::Host, vec![0, 1]), Rule::Together(Level::Host, vec![1, 2])];
    let hosts = hosts_of(&placed(&site(3, rules)).unwrap());
    assert!(hosts.iter().all(|host| *host == hosts[0]));
}

#[test]
fn servers_that_can_stay_stay() {
    let mut problem = site(3, vec![Rule::Apart(Level::Host, vec![vec![0], vec![1], vec![2]])]);
    for (server, at) in problem.servers.iter_mut().zip([3, 3, 1]) {
        server.current_host = Some(at);
    }
    let solution = placed(&problem).unwrap();
    assert_eq!(solution.cost.moved, 1);
    assert_eq!(solution.assignments[2].host, 1);
}

fn skew(level: Level, most: u32, servers: usize, domains: &[usize]) -> Rule {
    let servers = (0..servers).collect();
    Rule::Skew(Skew { level, most, servers, domains: domains.to_vec(), absent: 0 })
}

#[test]
fn rules_that_count_servers() {
    let (host, rack) = (Level::Host, Level::Rack);
    let at_most = |level, most, servers: usize| Rule::AtMost(level, most, (0..servers).collect());
    for (what, count, rules, fits) in [
        ("two on each host", 8, vec![at_most(host, 2, 8)], true),
        ("one too many", 9, vec![at_most(host, 2, 9)], false),
        ("five in each rack", 10, vec![at_most(rack, 5, 10)], true),
        ("one too many in a rack", 11, vec![at_most(rack, 5, 11)], false),
        (
            "three together where two may be",
            3,
            vec![at_most(host, 2, 3), Rule::Together(host, vec![0, 1, 2])],
            false,
        ),
        ("even over hosts", 7, vec![skew(host, 1, 7, &[0, 1, 2, 3])], true),
        ("one rack takes all", 3, vec![skew(rack, 2, 3, &[0]), at_most(rack, 3, 3)], true),
        (
            "even over racks, and all in one",
            3,
            vec![skew(rack, 2, 3, &[0, 2]), Rule::Together(rack, vec![0, 1, 2])],
            false,
        ),
    ] {
        assert_eq!(placed(&site(count, rules)).is_some(), fits, "{what}");
    }
    assert_eq!(per_unit(&site(7, vec![skew(host, 1, 7, &[0, 1, 2, 3])]), host), [2, 2, 2, 1]);
    let nine = site(9, vec![at_most(host, 2, 9)]);
    let count = counts(&nine, &explain(&nine, never)).remove(0);
    assert_eq!((count.needed, count.available), (5, 4));
}

/// A rule that may be broken is, but no more than necessary.
#[test]
fn soft_rules_are_followed_as_far_as_possible() {
    let soft = |kind, level, servers: usize| SoftRule {
        kind,
        level,
        weight: 3,
        parts: match kind {
            SoftRuleKind::Together => vec![(0..servers).collect()],
            SoftRuleKind::Apart => (0..servers).map(|server| vec![server]).collect(),
        },
    };
    let problem = |count: usize, soft: SoftRule| PlacementProblem {
        soft_rules: vec![soft],
        ..site(count, Vec::new())
    };
    let apart = problem(6, soft(SoftRuleKind::Apart, Level::Host, 6));
    assert_eq!(per_unit(&apart, Level::Host), [2, 2, 1, 1]);
    assert_eq!(placed(&apart).unwrap().cost.violations, 2 * 3);
    let together = problem(11, soft(SoftRuleKind::Together, Level::Host, 11));
    assert_eq!(per_unit(&together, Level::Host), [8, 3]);
    assert_eq!(placed(&together).unwrap().cost.violations, 8 * 3 * 3);
    // A soft rule comes before the policy, and after moves.
    let mut moved = problem(2, soft(SoftRuleKind::Apart, Level::Host, 2));
    moved.servers.iter_mut().for_each(|server| server.current_host = Some(1));
    let cost = placed(&moved).unwrap().cost;
    assert_eq!((cost.moved, cost.violations), (0, 3));
}

/// The problem with another policy.
fn under(goal: Goal, level: Level, problem: PlacementProblem) -> PlacementProblem {
    PlacementProblem { policy: PlacementPolicy { goal, level }, ..problem }
}

/// The numbers of servers on each host or rack with servers, descending.
fn per_unit(problem: &PlacementProblem, level: Level) -> Vec<u64> {
    let solution = placed(problem).unwrap();
    let of_host = |host: usize| match level {
        Level::Host => host as u32,
        Level::Rack => problem.hosts[host].rack.unwrap(),
        Level::Cluster => problem.hosts[host].cluster.unwrap(),
    };
    let units: Vec<u32> = hosts_of(&solution).into_iter().map(of_host).collect();
    Counts::of((0..9).map(|unit| units.iter().filter(|it| **it == unit).count() as u64))
        .descending()
        .collect()
}

#[test]
fn spreading_is_even() {
    let spread = |level: Level, count: usize| under(Goal::Spread, level, site(count, Vec::new()));
    assert_eq!(per_unit(&spread(Level::Host, 4), Level::Host), [1, 1, 1, 1]);
    assert_eq!(per_unit(&spread(Level::Host, 14), Level::Host), [4, 4, 3, 3]);
    assert_eq!(per_unit(&spread(Level::Rack, 13), Level::Rack), [7, 6]);
    // The racks are even, and so are the hosts in them.
    assert_eq!(per_unit(&spread(Level::Rack, 13), Level::Host), [4, 3, 3, 3]);
    // Three hosts with room for 18 each, of which one has most.
    let hosts = hosts(&[(18, 0), (24, 0), (18, 0)]);
    let (pools, servers) = (pools(&hosts), servers(20, 1, hosts.len()));
    let problem = PlacementProblem { hosts, pools, servers, ..PlacementProblem::default() };
    let problem = under(Goal::Spread, Level::Host, problem);
    let solution = placed(&problem).unwrap();
    assert_eq!(solution.cost.per_unit, Counts::of([7, 7, 6]));
    // Of the even ways, the one with most room on the hosts with most servers.
    assert_eq!(hosts_of(&solution).iter().filter(|host| **host == 1).count(), 7);
}

#[test]
fn spreading_counts_who_is_there() {
    let mut problem = under(Goal::Spread, Level::Host, site(7, Vec::new()));
    for server in &mut problem.servers[..3] {
        server.ways = Arc::new(Ways::staying_on(2));
        server.allowed_hosts = AllowedHosts::Only(2);
        server.current_host = Some(2);
    }
    assert_eq!(per_unit(&problem, Level::Host), [3, 2, 1, 1]);
}

#[test]
fn packing_counts_hosts_or_racks() {
    // The host that is in use has too little room for two servers, and is alone in its rack.
    let mut hosts = hosts(&[(1, 0), (3, 1), (3, 1)]);
    hosts[0].in_use = true;
    let (pools, servers) = (pools(&hosts), servers(4, 1, 3));
    let problem = PlacementProblem { hosts, pools, servers, ..PlacementProblem::default() };
    let of_hosts = under(Goal::Pack, Level::Host, problem.clone());
    let of_racks = under(Goal::Pack, Level::Rack, problem);
    assert_eq!(per_unit(&of_hosts, Level::Host), [3, 1]);
    assert_eq!(per_unit(&of_racks, Level::Rack), [4]);
    let cost = |problem: &PlacementProblem| placed(problem).unwrap().cost;
    assert_eq!((cost(&of_hosts).new_hosts, cost(&of_hosts).units), (1, 0));
    assert_eq!((cost(&of_racks).new_hosts, cost(&of_racks).units), (2, 1));
}

#[test]
fn balancing_is_by_what_is_used_in_relation_to_capacity() {
    let mut problem = under(Goal::Balance, Level::Host, site(6, Vec::new()));
    for (host, [capacity, free]) in problem.hosts.iter_mut().zip([[8, 8], [8, 2], [16, 8], [4, 4]])
    {
        (host.capacity, host.free) = (vec![capacity], vec![free]);
    }
    problem.servers.iter_mut().for_each(|server| server.amounts = [1].into());
    let hosts = hosts_of(&placed(&problem).unwrap());
    let count = |host: usize| hosts.iter().filter(|it| **it == host).count();
    // Half of the first and of the last is used then, as it is of the third.
    assert_eq!([count(0), count(1), count(2), count(3)], [4, 0, 0, 2]);
    // Racks: 10 of 16 are free in the first, 12 of 20 in the second.
    let racks = PlacementPolicy { goal: Goal::Balance, level: Level::Rack };
    assert_eq!(per_unit(&PlacementProblem { policy: racks, ..problem }, Level::Rack), [3, 3]);
}

#[test]
fn a_conflict_says_what_is_needed_and_what_there_is() {
    let apart = Rule::Apart(Level::Rack, vec![vec![0], vec![1], vec![2]]);
    let problem = site(4, vec![Rule::Together(Level::Cluster, vec![0, 3]), apart]);
    let conflict = explain(&problem, never);
    assert_eq!((&*conflict.rules, &*conflict.servers), (&[1][..], &[0, 1, 2][..]));
    let count = &counts(&problem, &conflict)[0];
    assert_eq!((count.needed, count.available, &*count.units), (3, 2, &[0, 2][..]));
}

#[test]
fn time_that_is_up_ends_it() {
    let mut problem = site(30, Vec::new());
    for (nth, server) in problem.servers.iter_mut().enumerate() {
        server.ways = one_way(1 + u64::from(nth % 2 == 0), 4);
        server.allowed_hosts = (0..4).map(|host| host != nth % 4).collect();
    }
    problem.hosts.iter_mut().for_each(|host| host.free = vec![12]);
    problem.pools.iter_mut().for_each(|pool| pool.free = 12);
    let mut looks = 0;
    let outcome = solve(&problem, || {
        looks += 1;
        looks > 40
    });
    let Outcome::Placed(solution) = outcome else { panic!("{outcome:?}") };
    assert!(broken(&problem, &hosts_of(&solution)).is_none() && is_drawn(&problem, &solution));
    assert!(solution.bound <= solution.cost);
}

/// A host of two nodes with three units each: four servers of one unit and one of two go there, but
/// only if the second of the small ones joins the first.
#[test]
fn servers_with_a_choice_make_way_for_others() {
    let sized =
        |need: u64| Arc::new(ways(&[vec![Draws::from([(0, need)]), Draws::from([(1, need)])]]));
    let server = |need: u64| Server {
        ways: sized(need),
        allowed_hosts: vec![true].into(),
        ..Server::default()
    };
    let mut problem = PlacementProblem {
        hosts: vec![Host { free: vec![6], ..Host::default() }],
        pools: vec![Pool { class: 0, free: 3 }; 2],
        servers: [1, 1, 2, 2].map(server).to_vec(),
        rules: Vec::new(),
        ..PlacementProblem::default()
    };
    assert!(placed(&problem).is_some());
    problem.servers = [2, 2, 2].map(server).to_vec();
    assert_eq!(placed(&problem), None);
    problem.rules = vec![Rule::Together(Level::Host, vec![0, 1, 2])];
    assert_eq!(placed(&problem), None);
    problem.servers = [1, 3, 2].map(server).to_vec();
    assert!(placed(&problem).is_some());
}

/// Two hosts share a pool, and only the first has one of its own as well.
#[test]
fn servers_with_a_choice_leave_the_shared_pool() {
    let server = Server {
        ways: Arc::new(ways(&[
            vec![Draws::from([(0, 2)]), Draws::from([(1, 2)])],
            vec![Draws::from([(0, 2)])],
        ])),
        allowed_hosts: vec![true; 2].into(),
        ..Server::default()
    };
    let mut problem = PlacementProblem {
        hosts: vec![Host::default(); 2],
        pools: vec![Pool { class: 0, free: 3 }, Pool { class: 0, free: 2 }],
        servers: vec![server; 2],
        rules: vec![Rule::Apart(Level::Host, vec![vec![0], vec![1]])],
        ..PlacementProblem::default()
    };
    let solution = placed(&problem).unwrap();
    assert_eq!(solution.assignments.iter().map(|it| it.ways.clone()).max(), Some(vec![1]));
    problem.pools[1].free = 1;
    assert_eq!(placed(&problem), None);
}

#[test]
fn pinned_servers_draw_nothing() {
    let mut problem = site(2, Vec::new());
    let allowed_hosts = vec![false, false, true, false].into();
    let ways = Arc::new(Ways::staying_on(2));
    let current_host = Some(2);
    problem.servers.push(Server { ways, allowed_hosts, current_host, ..Server::default() });
    problem.pools[2].free = 2;
    let solution = placed(&problem).unwrap();
    assert_eq!(hosts_of(&solution), [2, 2, 2]);
    assert_eq!(solution.cost.moved, 0);
}

#[test]
fn small_conflicts_come_first() {
    // A server that fits nowhere, beside a rule that cannot be met.
    let apart = Rule::Apart(Level::Rack, vec![vec![0], vec![1], vec![2]]);
    let mut problem = site(12, vec![apart, Rule::Together(Level::Host, (3..12).collect())]);
    problem.servers[7].ways = one_way(9, 4);
    let conflict = explain(&problem, never);
    assert_eq!((conflict.rules, conflict.servers), (Vec::new(), vec![7]));
    // Nine that must be together where there is room for eight; the three are the shorter explanation.
    problem.servers[7].ways = problem.servers[6].ways.clone();
    assert_eq!(explain(&problem, never).servers, [0, 1, 2]);
    problem.rules.remove(0);
    let conflict = explain(&problem, never);
    let count = &counts(&problem, &conflict)[0];
    assert_eq!((count.needed, count.available), (1, 4));
    assert_eq!((conflict.rules, conflict.servers), (vec![0], (3..12).collect::<Vec<_>>()));
}

fn counts(problem: &PlacementProblem, conflict: &Conflict) -> Vec<UnitCount> {
    count_units(problem, &conflict.rules, &conflict.servers, &mut Budget::new(&mut never))
}

/// Two lack room whether they must be together or not.
#[test]
fn a_rule_that_does_not_matter_is_in_no_conflict() {
    let mut problem = site(5, vec![Rule::Together(Level::Host, vec![3, 4])]);
    problem.hosts.truncate(1);
    problem.servers.iter_mut().for_each(|server| server.allowed_hosts = vec![true].into());
    problem.pools = vec![Pool { class: 0, free: 2 }, Pool { class: 1, free: 4 }];
    let draws = [[0, 1], [0, 1], [0, 1], [2, 0], [1, 2]];
    for (server, [one, other]) in problem.servers.iter_mut().zip(draws) {
        server.ways = Arc::new(ways(&[vec![Draws::from([(0, one), (1, other)])]]));
    }
    assert!(explain(&problem, never).rules.is_empty());
}

/// The search is deep, but must not use the stack for that.
#[test]
fn two_thousand_servers_are_placed() {
    let hosts = hosts(&[(100, 0); 20]);
    let (pools, servers) = (pools(&hosts), servers(2_000, 1, hosts.len()));
    let solution =
        placed(&PlacementProblem { hosts, pools, servers, ..PlacementProblem::default() });
    assert_eq!(solution.unwrap().cost.new_hosts, 20);
}

/// The bundle that needs a new host is not the only one of its diversity rule.
#[test]
fn bounds_add_up_what_kinds_lack() {
    let mut hosts = hosts(&[(1, 0), (1, 0), (1, 0), (4, 0), (4, 0), (4, 0), (4, 0)]);
    hosts.iter_mut().take(3).for_each(|host| host.in_use = true);
    let pools = pools(&hosts);
    let mut servers = servers(4, 1, hosts.len());
    servers[2].ways = one_way(2, hosts.len());
    servers[3].ways = one_way(3, hosts.len());
    let rules = vec![Rule::Apart(Level::Host, (0..4).map(|server| vec![server]).collect())];
    let problem = PlacementProblem { hosts, pools, servers, rules, ..PlacementProblem::default() };
    let mut looks = 0;
    let outcome = solve(&problem, || {
        looks += 1;
        looks > 1
    });
    let Outcome::Placed(solution) = outcome else { panic!("{outcome:?}") };
    assert_eq!((solution.cost.new_hosts, solution.bound.new_hosts), (2, 2));
}

/// The second has no way where the first may not be but could.
/// Each of three exclusivity groups, and the servers in none, need hosts of their own. Once only, because
/// the time is up after a few looks: the bound knows without trying.
#[test]
fn exclusive_hosts_add_up() {
    let alone = |servers: &[usize]| Rule::Alone(Level::Host, servers.to_vec());
    let mut problem = site(8, vec![alone(&[0, 1]), alone(&[2, 3]), alone(&[4])]);
    problem.hosts.iter_mut().for_each(|host| host.in_use = false);
    let mut looks = 0;
    let outcome = solve(&problem, || {
        looks += 1;
        looks > 3
    });
    let Outcome::Placed(solution) = outcome else { panic!("{outcome:?}") };
    assert_eq!((solution.cost.new_hosts, solution.bound.new_hosts), (4, 4));
}

#[test]
fn sizes_are_distinguished_where_only_one_is_allowed() {
    let mut problem = site(2, Vec::new());
    let mut draws: Vec<Vec<Draws>> = (0..4).map(|host| vec![Draws::from([(host, 1)])]).collect();
    problem.servers[0].allowed_hosts = vec![false, true, false, false].into();
    draws[0] = Vec::new();
    problem.servers[1].ways = Arc::new(ways(&draws));
    problem.servers[1].allowed_hosts = vec![true, true, false, false].into();
    problem.pools[1].free = 1;
    assert_eq!(placed(&problem), None);
}
