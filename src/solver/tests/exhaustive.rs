//! The solver beside an exhaustive search, on small problems of every sort.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::evaluation::cost;
use super::super::{
    Budget, Conflict, Cost, Goal, Host, Level, Outcome, PlacementPolicy, PlacementProblem, Pool,
    Rule, Server, Way, Ways, explain, explain_within, solve_within,
};
use super::{broken, hosts_of, is_drawn, never, placed};

/// The least cost of all placements, by trying every one.
fn exhaustive(problem: &PlacementProblem) -> Option<Cost> {
    let (hosts, count) = (problem.hosts.len(), problem.servers.len());
    let mut best: Option<Cost> = None;
    for number in 0..hosts.pow(count as u32) {
        let places: Vec<usize> =
            (0..count).map(|nth| number / hosts.pow(nth as u32) % hosts).collect();
        if broken(problem, &places).is_some() {
            continue;
        }
        let cost = cost(problem, &places);
        let left = &mut problem.pools.iter().map(|pool| pool.free).collect();
        if best.as_ref().is_none_or(|best| cost < *best) && is_room(problem, &places, 0, left) {
            best = Some(cost);
        }
    }
    best
}

/// Whether the servers from the one on have ways that go together.
fn is_room(problem: &PlacementProblem, places: &[usize], from: usize, left: &mut Vec<u64>) -> bool {
    let Some(host) = places.get(from) else { return true };
    problem.servers[from].ways.on(*host).iter().any(|Way(draws)| {
        let before = left.clone();
        let is_drawn = draws.iter().all(|(pool, amount)| {
            let rest = left[*pool].checked_sub(*amount);
            left[*pool] = rest.unwrap_or(0);
            rest.is_some()
        });
        let is_room = is_drawn && is_room(problem, places, from + 1, left);
        *left = before;
        is_room
    })
}

/// A host with nodes of one class, storage of another of its own, and perhaps shared storage.
#[derive(Clone, Debug)]
struct Tree {
    nodes: Vec<u64>,
    storage: Option<u64>,
    shared: Option<usize>,
    rack: Option<u32>,
    cluster: Option<u32>,
    in_use: bool,
    /// What is used already of the nodes and of the storage.
    used: [u64; 2],
}

/// What a server of a size needs: of one node, perhaps of a second one, and of a storage.
#[derive(Clone, Copy, Debug)]
struct Size {
    node: u64,
    second: Option<u64>,
    storage: u64,
}

fn trees() -> impl Strategy<Value = Vec<Tree>> {
    let tree = (
        prop::collection::vec(0_u64..4, 1..4),
        prop::option::weighted(0.7, 0_u64..5),
        prop::option::weighted(0.5, 0_usize..2),
        prop::option::weighted(0.8, 0_u32..3),
        prop::option::weighted(0.8, 0_u32..2),
        any::<bool>(),
        [0_u64..3, 0_u64..3],
    );
    let tree = tree.prop_map(|(nodes, storage, shared, rack, cluster, in_use, used)| Tree {
        nodes,
        storage,
        shared,
        rack,
        cluster,
        in_use,
        used,
    });
    // FitInFewRacks sorts of hosts, so that many are alike.
    let sorts = prop::collection::vec(tree, 1..4);
    (sorts, prop::collection::vec((0_usize..3, 0_u32..3), 1..6)).prop_map(|(sorts, hosts)| {
        let host = |(sort, rack): (usize, u32)| {
            let mut tree = sorts[sort % sorts.len()].clone();
            tree.rack = tree.rack.map(|_| rack);
            tree
        };
        hosts.into_iter().map(host).collect()
    })
}

fn sizes() -> impl Strategy<Value = Vec<Size>> {
    let size = (0_u64..3, prop::option::weighted(0.3, 0_u64..3), 0_u64..3);
    let size = size.prop_map(|(node, second, storage)| Size { node, second, storage });
    prop::collection::vec(size, 1..4)
}

/// The pools, the first two of which are shared, and for each size the ways on each host.
fn pools_and_ways(trees: &[Tree], sizes: &[Size], shared: [u64; 2]) -> (Vec<Pool>, Vec<Ways>) {
    let mut pools: Vec<Pool> = shared.map(|free| Pool { class: 1, free }).to_vec();
    let mut ways: Vec<Vec<Vec<Way>>> = vec![Vec::new(); sizes.len()];
    for tree in trees {
        let from = pools.len();
        pools.extend(tree.nodes.iter().map(|free| Pool { class: 0, free: *free }));
        let nodes: Vec<usize> = (from..pools.len()).collect();
        let own = tree.storage.map(|free| {
            pools.push(Pool { class: 1, free });
            pools.len() - 1
        });
        let storages: Vec<usize> = own.into_iter().chain(tree.shared).collect();
        for (size, ways) in sizes.iter().zip(&mut ways) {
            let mut here = Vec::new();
            for storage in &storages {
                for first in &nodes {
                    let draws = vec![(*first, size.node), (*storage, size.storage)];
                    let Some(amount) = size.second else {
                        here.push(Way(draws));
                        continue;
                    };
                    for second in &nodes {
                        here.push(Way([draws.clone(), vec![(*second, amount)]].concat()));
                    }
                }
            }
            ways.push(here);
        }
    }
    (pools, ways.into_iter().map(Ways::from).collect())
}

/// Ways of two sizes that draw on any pools, most of which several hosts draw on.
fn any_ways(hosts: usize) -> impl Strategy<Value = (Vec<Pool>, Vec<Ways>)> {
    let pool = (0_usize..2, 0_u64..6).prop_map(|(class, free)| Pool { class, free });
    let way = prop::collection::vec((0_usize..5, 0_u64..3), 0..3).prop_map(Way);
    let ways = prop::collection::vec(prop::collection::vec(way, 0..4), hosts);
    let ways = ways.prop_map(Ways::from);
    (prop::collection::vec(pool, 5), prop::collection::vec(ways, 2))
}

fn rules(count: usize) -> impl Strategy<Value = Vec<Rule>> {
    let level = prop::sample::select(vec![Level::Host, Level::Rack, Level::Cluster]);
    let some = prop::sample::subsequence((0..count).collect::<Vec<_>>(), 1..=count);
    let rule =
        (level, some, 0..3_usize, 1..=2_usize).prop_map(
            |(level, members, kind, size)| match kind {
                0 => Rule::Together(level, members),
                1 => Rule::Apart(level, members.chunks(size).map(<[usize]>::to_vec).collect()),
                _ => Rule::Alone(level, members),
            },
        );
    prop::collection::vec(rule, 0..4)
}

fn policies() -> impl Strategy<Value = PlacementPolicy> {
    let goal = prop::sample::select(Goal::ALL.to_vec());
    let level = prop::sample::select(Level::ALL.to_vec());
    (goal, level).prop_map(|(goal, level)| PlacementPolicy { goal, level })
}

fn problems() -> impl Strategy<Value = PlacementProblem> {
    let world = (trees(), sizes(), [0_u64..6, 0_u64..6], 1_usize..6);
    let world = world.prop_flat_map(|(trees, sizes, shared, count)| {
        let of_trees = Just(pools_and_ways(&trees, &sizes, shared));
        let any_ways = any_ways(trees.len());
        (Just(trees), prop_oneof![3 => of_trees, 1 => any_ways], Just(count))
    });
    world.prop_flat_map(|(trees, (pools, ways), count)| {
        let hosts = trees.len();
        let ways: Vec<Arc<Ways>> = ways.into_iter().map(Arc::new).collect();
        let server = (
            prop::sample::select(ways),
            // Most may be anywhere, so that many are alike.
            prop::option::weighted(0.3, prop::collection::vec(prop::bool::weighted(0.7), hosts)),
            prop::option::weighted(0.3, 0..hosts),
            prop::bool::weighted(0.1),
            ([0_u64..3, 0_u64..2], prop::bool::weighted(0.3)),
        );
        let server =
            server.prop_map(move |(ways, allowed_hosts, current_host, is_pinned, adds)| {
                let (amounts, is_counted_at_home) = (Arc::from(adds.0), adds.1);
                let Some(at) = current_host.filter(|_| is_pinned) else {
                    let allowed_hosts = allowed_hosts.unwrap_or_else(|| vec![true; hosts]).into();
                    return Server {
                        ways,
                        allowed_hosts,
                        current_host,
                        amounts,
                        is_counted_at_home,
                    };
                };
                let here = |host: usize| if host == at { vec![Way::default()] } else { Vec::new() };
                Server {
                    ways: Arc::new((0..hosts).map(here).collect()),
                    allowed_hosts: (0..hosts).map(|host| host == at).collect(),
                    current_host,
                    amounts,
                    is_counted_at_home,
                }
            });
        let free = |tree: &Tree| vec![tree.nodes.iter().sum(), tree.storage.unwrap_or(0)];
        let host = |tree: &Tree| Host {
            free: free(tree),
            capacity: free(tree).iter().zip(tree.used).map(|(free, used)| free + used).collect(),
            rack: tree.rack,
            cluster: tree.cluster,
            in_use: tree.in_use,
        };
        let hosts: Vec<Host> = trees.iter().map(host).collect();
        (prop::collection::vec(server, count), rules(count), policies()).prop_map(
            move |(servers, rules, policy)| {
                let (hosts, pools) = (hosts.clone(), pools.clone());
                PlacementProblem { hosts, pools, servers, rules, policy }
            },
        )
    })
}

/// A part of a problem.
fn part(problem: &PlacementProblem, rules: &[usize], servers: &[usize]) -> PlacementProblem {
    let position = |server: usize| servers.iter().position(|known| *known == server);
    let rule = |number: &usize| problem.rules[*number].restricted(position);
    PlacementProblem {
        servers: servers.iter().map(|it| problem.servers[*it].clone()).collect(),
        rules: rules.iter().map(rule).collect(),
        ..problem.clone()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn it_is_the_best_of_all_placements(problem in problems()) {
        let found = placed(&problem);
        prop_assert_eq!(found.as_ref().map(|it| it.cost.clone()), exhaustive(&problem));
        prop_assert_eq!(found, placed(&problem));
    }

    /// Whenever its time is up, it stops at once and says nothing that is not so.
    #[test]
    fn cut_short_it_says_nothing_wrong(problem in problems(), looks_max in 0_usize..1500) {
        let expected = placed(&problem);
        let mut looks = 0;
        let mut is_up = || {
            looks += 1;
            looks > looks_max
        };
        match solve_within(&problem, &mut Budget::looking_always(&mut is_up)) {
            Outcome::Placed(found) => {
                prop_assert_eq!(broken(&problem, &hosts_of(&found)), None);
                prop_assert!(is_drawn(&problem, &found));
                let best = expected.as_ref().map(|it| it.cost.clone());
                prop_assert!(best.is_some_and(|best| found.bound <= best && best <= found.cost));
            }
            Outcome::Impossible => prop_assert_eq!(expected.as_ref(), None),
            Outcome::OutOfTime => prop_assert!(looks > looks_max),
        }
        if expected.is_none() {
            looks = 0;
            let mut is_up = || {
                looks += 1;
                looks > looks_max
            };
            let conflict = explain_within(&problem, &mut Budget::looking_always(&mut is_up));
            let rest = part(&problem, &conflict.rules, &conflict.servers);
            prop_assert_eq!(placed(&rest), None);
        }
    }

    #[test]
    fn a_conflict_is_one_and_is_the_smallest(problem in problems()) {
        if placed(&problem).is_some() {
            return Ok(());
        }
        let Conflict { rules, servers, .. } = explain(&problem, never);
        let with = |rules: &[usize], servers: &[usize]| {
            placed(&part(&problem, rules, servers)).is_some()
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
