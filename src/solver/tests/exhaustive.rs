//! Compares the solver with an exhaustive search, on small problems of every sort.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::super::evaluation::cost;
use super::super::model::Model;
use super::super::{
    Budget, Choice, Conditions, Conflict, Cost, Draws, Goal, Host, Level, Outcome, Parts,
    PlacementPolicy, PlacementProblem, Pool, Rule, Server, Skew, SoftRule, SoftRuleKind, Solution,
    Source, Supply, Way, Ways, explain_within, solve_other, solve_within,
};
use super::room::Room;
use super::{best, broken, hosts_of, is_drawn, ways};

/// The least cost of all placements, by trying every one.
pub(super) fn exhaustive(problem: &PlacementProblem) -> Option<Cost> {
    let (hosts, count) = (problem.hosts.len(), problem.servers.len());
    let mut room = Room::of(problem);
    let mut best: Option<Cost> = None;
    for number in 0..hosts.pow(count as u32) {
        let places: Vec<usize> =
            (0..count).map(|nth| number / hosts.pow(nth as u32) % hosts).collect();
        if broken(problem, &places).is_some() {
            continue;
        }
        let cost = cost(problem, &places);
        assert_eq!(cost.violations, violations(problem, &places));
        if best.as_ref().is_none_or(|best| cost < *best) && room.is_enough(&places) {
            best = Some(cost);
        }
    }
    best
}

/// The cost of the soft rules, by a literal reading.
fn violations(problem: &PlacementProblem, places: &[usize]) -> u64 {
    let unit = |soft: &SoftRule, server: usize| {
        let host = places[server];
        let known = match soft.level {
            Level::Host => Some(host),
            Level::Rack => problem.hosts[host].rack.map(|it| it as usize),
            Level::Cluster => problem.hosts[host].cluster.map(|it| it as usize),
        };
        let unknown = if soft.kind == SoftRuleKind::Together { 100 + host } else { 100 };
        known.unwrap_or(unknown)
    };
    let mut cost = 0;
    for soft in &problem.soft_rules {
        let numbered = soft.parts.iter().enumerate();
        let all = numbered.flat_map(|(nth, part)| part.iter().map(move |server| (nth, *server)));
        let all: Vec<(usize, usize)> = all.collect();
        for (nth, (part, one)) in all.iter().enumerate() {
            for (other_part, other) in &all[nth + 1..] {
                let is_same = unit(soft, *one) == unit(soft, *other);
                cost += u64::from(soft.weight)
                    * u64::from(match soft.kind {
                        SoftRuleKind::Together => !is_same,
                        SoftRuleKind::Apart => is_same && part != other_part,
                    });
            }
        }
    }
    cost
}

/// A host with nodes of one class, storage of another class, and perhaps shared storage.
#[derive(Clone, Debug)]
struct Tree {
    nodes: Vec<u64>,
    storage: Option<u64>,
    shared: Option<usize>,
    rack: Option<u32>,
    cluster: Option<u32>,
    in_use: bool,
    /// The used amounts of the nodes and of the storage.
    used: [u64; 2],
}

/// The demand of a server of a size: on one node, perhaps on a second one, and on storage.
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
    // Few sorts of hosts, so that many are alike.
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
    let mut all: Vec<Vec<Vec<Draws>>> = vec![Vec::new(); sizes.len()];
    for tree in trees {
        let from = pools.len();
        pools.extend(tree.nodes.iter().map(|free| Pool { class: 0, free: *free }));
        let nodes: Vec<usize> = (from..pools.len()).collect();
        let own = tree.storage.map(|free| {
            pools.push(Pool { class: 1, free });
            pools.len() - 1
        });
        let storages: Vec<usize> = own.into_iter().chain(tree.shared).collect();
        for (size, all) in sizes.iter().zip(&mut all) {
            let mut here = Vec::new();
            for storage in &storages {
                for first in &nodes {
                    let draws = [(*first, size.node), (*storage, size.storage)];
                    let Some(amount) = size.second else {
                        here.push(Draws::from(draws));
                        continue;
                    };
                    for second in &nodes {
                        here.push(draws.into_iter().chain([(*second, amount)]).collect());
                    }
                }
            }
            all.push(here);
        }
    }
    (pools, all.iter().map(|hosts| ways(hosts)).collect())
}

/// Ways of two sizes that draw on any pools, most of which several hosts draw on.
fn any_ways(hosts: usize) -> impl Strategy<Value = (Vec<Pool>, Vec<Ways>)> {
    let pool = (0_usize..2, 0_u64..6).prop_map(|(class, free)| Pool { class, free });
    let draws = prop::collection::vec((0_usize..5, 0_u64..3), 0..3).prop_map(Draws::from_iter);
    let hosts = prop::collection::vec(prop::collection::vec(draws, 0..4), hosts);
    let hosts = hosts.prop_map(|hosts| ways(&hosts));
    (prop::collection::vec(pool, 5), prop::collection::vec(hosts, 2))
}

/// Providers on each host: the depth of each below the one before it.
const PROVIDERS: usize = 3;

/// Servers of several parts, on hosts that are trees of providers beside one that shares. All
/// providers have two classes. Hosts are of two sorts, and the providers of one have as much free as
/// each other, so that many are interchangeable.
fn parts(hosts: usize) -> impl Strategy<Value = (Vec<Pool>, Vec<Ways>)> {
    let sort = (prop::collection::vec(0_usize..3, PROVIDERS), [0_u64..4, 0_u64..4]);
    let sorts = prop::collection::vec(sort, 2);
    let of_hosts = prop::collection::vec(0_usize..2, hosts);
    (sorts, of_hosts, 0_u64..5, prop::collection::vec(size_in_parts(), 2)).prop_map(
        |(sorts, of_hosts, shared, sizes)| {
            let pool = |class: usize, free: u64| Pool { class, free };
            let mut pools: Vec<Pool> = [0, 1].map(|class| pool(class, shared)).into();
            for sort in &of_hosts {
                for _ in 0..PROVIDERS {
                    pools.extend([0, 1].map(|class| pool(class, sorts[*sort].1[class])));
                }
            }
            let of_size = |size: &SizeInParts| {
                let on = |(host, sort): (usize, &usize)| {
                    Some((host, supply_in_parts(host, &sorts[*sort].0, size)?))
                };
                of_hosts.iter().enumerate().filter_map(on).collect()
            };
            let ways = sizes.iter().map(of_size).collect();
            (pools, ways)
        },
    )
}

/// A part: its draws of either class, and the providers that can supply it, the last of which shares.
type PartOfSize = ([u64; 2], Vec<bool>);

/// The parts of a size, its conditions, for each provider the clauses it meets, and the maximum draw of a server on
/// the first class of the second provider.
type SizeInParts = (Vec<PartOfSize>, Conditions, Vec<Vec<bool>>, Option<u64>);

fn size_in_parts() -> impl Strategy<Value = SizeInParts> {
    let providers = prop::collection::vec(prop::bool::weighted(0.7), PROVIDERS + 1);
    let part = ([0_u64..3, 0_u64..2], providers);
    (prop::collection::vec(part, 1..4), 0_usize..3).prop_flat_map(|(parts, clauses)| {
        let count = parts.len();
        let some = || prop::sample::subsequence((0..count).collect::<Vec<_>>(), 0..=count);
        let conditions = (some(), prop::collection::vec(some(), 0..2), any::<bool>());
        let conditions = conditions.prop_map(move |(isolated, subtrees, needs_own)| Conditions {
            clauses,
            isolated,
            subtrees,
            needs_own,
        });
        let conditions =
            prop_oneof![Just(Conditions { clauses, ..Conditions::default() }), conditions];
        let meets = prop::collection::vec(prop::bool::weighted(0.4), clauses);
        let limit = prop::option::weighted(0.3, 1_u64..4);
        (Just(parts), conditions, prop::collection::vec(meets, PROVIDERS + 1), limit)
    })
}

/// The supply of a size on a host whose providers have these depths.
fn supply_in_parts(host: usize, depths: &[usize], size: &SizeInParts) -> Option<Supply> {
    let (parts, conditions, meets, limit) = size;
    // A provider is below the one before it if it is deeper, by one level at most.
    let mut depth: Vec<usize> = vec![0];
    for it in &depths[1..] {
        depth.push((*it).clamp(1, depth[depth.len() - 1] + 1));
    }
    let last = |at: usize| {
        let below = depth[at + 1..].iter().take_while(|it| **it > depth[at]).count();
        (at + below) as u32
    };
    let own_pool = |provider: usize| 2 + 2 * (host * PROVIDERS + provider);
    let way = |provider: usize, amounts: &[u64; 2]| {
        let first = if provider < PROVIDERS { own_pool(provider) } else { 0 };
        let draws = (0..2).filter(|class| amounts[*class] > 0);
        Way {
            draws: draws.map(|class| (first + class, amounts[class])).collect(),
            provider: provider as u32,
            last: if provider < PROVIDERS { last(provider) } else { provider as u32 },
            meets: meets[provider].clone().into(),
            source: match provider {
                0 => Source::OwnShared,
                _ if provider < PROVIDERS => Source::Own,
                _ => Source::Foreign,
            },
        }
    };
    let part = |(amounts, providers): &PartOfSize| {
        let able = (0..=PROVIDERS).filter(|provider| providers[*provider]);
        able.map(|provider| way(provider, amounts)).collect::<Vec<Way>>()
    };
    let parts: Parts = parts.iter().map(part).collect();
    if parts.iter().any(<[Way]>::is_empty) {
        return None;
    }
    let (limits, conditions) = (limit.map(|most| (own_pool(1), most)), conditions.clone().into());
    let limits = limits.into_iter().collect();
    Some(Supply::Choice(Box::new(Choice { parts, conditions, limits })))
}

fn rules(count: usize, hosts: usize) -> impl Strategy<Value = Vec<Rule>> {
    let level = prop::sample::select(vec![Level::Host, Level::Rack, Level::Cluster]);
    let some = prop::sample::subsequence((0..count).collect::<Vec<_>>(), 1..=count);
    let domains = prop::sample::subsequence((0..hosts).collect::<Vec<_>>(), 1..=hosts);
    let rule = (level, some, 0..5_usize, 1..=2_usize, domains).prop_map(
        |(level, members, kind, size, domains)| match kind {
            0 => Rule::Together(level, members),
            1 => Rule::Apart(level, members.chunks(size).map(<[usize]>::to_vec).collect()),
            2 => Rule::Alone(level, members),
            3 => Rule::AtMost(level, size as u32, members),
            _ => {
                Rule::Skew(Skew { level, most: size as u32, servers: members, domains, absent: 0 })
            }
        },
    );
    prop::collection::vec(rule, 0..4)
}

fn soft_rules(count: usize) -> impl Strategy<Value = Vec<SoftRule>> {
    let level = prop::sample::select(vec![Level::Host, Level::Rack, Level::Cluster]);
    let some = prop::sample::subsequence((0..count).collect::<Vec<_>>(), 1..=count);
    let kind = prop::sample::select(vec![SoftRuleKind::Together, SoftRuleKind::Apart]);
    let soft = (level, some, kind, 1..=2_usize, 1..=3_u32);
    let soft = soft.prop_map(|(level, members, kind, size, weight)| {
        let parts = match kind {
            SoftRuleKind::Together => vec![members],
            SoftRuleKind::Apart => members.chunks(size).map(<[usize]>::to_vec).collect(),
        };
        SoftRule { kind, level, weight, parts }
    });
    prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(soft, 1..4)]
}

/// The costs of all different placements, ascending.
fn costs(problem: &PlacementProblem) -> Vec<Cost> {
    let mut never = || false;
    let Some(model) = Model::of(problem, &mut Budget::new(&mut never)) else { return Vec::new() };
    let (hosts, count) = (problem.hosts.len(), problem.servers.len());
    let mut room = Room::of(problem);
    let mut found: HashMap<Vec<(usize, usize)>, Cost> = HashMap::new();
    for number in 0..hosts.pow(count as u32) {
        let places: Vec<usize> =
            (0..count).map(|nth| number / hosts.pow(nth as u32) % hosts).collect();
        if broken(problem, &places).is_none() && room.is_enough(&places) {
            found.entry(by_kind(&model, &places)).or_insert_with(|| cost(problem, &places));
        }
    }
    let mut costs: Vec<Cost> = found.into_values().collect();
    costs.sort_unstable();
    costs
}

/// The hosts of the bundles of each kind, ascending.
fn by_kind(model: &Model<'_>, places: &[usize]) -> Vec<(usize, usize)> {
    let mut hosts: Vec<(usize, usize)> =
        model.bundles.iter().map(|it| (it.kind, places[it.servers[0]])).collect();
    hosts.sort_unstable();
    hosts
}

fn policies() -> impl Strategy<Value = PlacementPolicy> {
    let goal = prop::sample::select(Goal::ALL.to_vec());
    let level = prop::sample::select(Level::ALL.to_vec());
    (goal, level).prop_map(|(goal, level)| PlacementPolicy { goal, level })
}

/// Small problems of every sort.
pub(super) fn problems() -> impl Strategy<Value = PlacementProblem> {
    let world = (trees(), sizes(), [0_u64..6, 0_u64..6], 1_usize..6);
    let world = world.prop_flat_map(|(trees, sizes, shared, count)| {
        let of_trees = Just(pools_and_ways(&trees, &sizes, shared));
        let (any_ways, parts) = (any_ways(trees.len()), parts(trees.len()));
        (Just(trees), prop_oneof![3 => of_trees, 1 => any_ways, 3 => parts], Just(count))
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
                Server {
                    ways: Arc::new(Ways::staying_on(at)),
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
        (
            prop::collection::vec(server, count),
            rules(count, trees.len()),
            soft_rules(count),
            policies(),
        )
            .prop_map(move |(servers, rules, soft_rules, policy)| {
                let (hosts, pools) = (hosts.clone(), pools.clone());
                PlacementProblem { hosts, pools, servers, rules, soft_rules, policy }
            })
    })
}

/// A part of a problem.
fn part(problem: &PlacementProblem, rules: &[usize], servers: &[usize]) -> PlacementProblem {
    let position = |server: usize| servers.iter().position(|known| *known == server);
    let rule = |number: &usize| problem.rules[*number].restricted(position);
    PlacementProblem {
        servers: servers.iter().map(|it| problem.servers[*it].clone()).collect(),
        rules: rules.iter().map(rule).collect(),
        soft_rules: Vec::new(),
        ..problem.clone()
    }
}

/// Maximum number of time checks of a search before its case is skipped: some seconds.
const LOOKS_MAX: usize = 2_000;

/// Runs a search. One case in some thousands would take minutes, or hours: it is skipped.
pub(super) fn found_soon<R>(search: impl FnOnce(Budget<'_>) -> R) -> Result<R, TestCaseError> {
    let mut looks = 0;
    let mut is_late = || {
        looks += 1;
        looks > LOOKS_MAX
    };
    let found = search(Budget::new(&mut is_late));
    if looks > LOOKS_MAX { Err(TestCaseError::reject("it takes too long")) } else { Ok(found) }
}

fn placed_soon(problem: &PlacementProblem) -> Result<Option<Solution>, TestCaseError> {
    let outcome = found_soon(|mut budget| solve_within(problem, &mut budget))?;
    Ok(best(problem, outcome))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn it_is_the_best_of_all_placements(problem in problems()) {
        let found = placed_soon(&problem)?;
        prop_assert_eq!(found.as_ref().map(|it| it.cost.clone()), exhaustive(&problem));
        prop_assert_eq!(found, placed_soon(&problem)?);
    }

    /// When its time is up, it stops at once and returns nothing wrong.
    #[test]
    fn cut_short_it_says_nothing_wrong(problem in problems(), looks_max in 0_usize..1500) {
        let expected = placed_soon(&problem)?;
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
            prop_assert_eq!(placed_soon(&rest)?, None);
        }
    }

    #[test]
    fn a_conflict_is_one_and_is_the_smallest(problem in problems()) {
        if placed_soon(&problem)?.is_some() {
            return Ok(());
        }
        let Conflict { rules, servers, is_minimal } =
            found_soon(|mut budget| explain_within(&problem, &mut budget))?;
        prop_assert!(is_minimal);
        let with = |rules: &[usize], servers: &[usize]| {
            placed_soon(&part(&problem, rules, servers)).map(|found| found.is_some())
        };
        prop_assert!(!with(&rules, &servers)?);
        let without = |list: &[usize], it: usize| -> Vec<usize> {
            list.iter().copied().filter(|other| *other != it).collect()
        };
        for rule in &rules {
            prop_assert!(with(&without(&rules, *rule), &servers)?, "rule {}", rule);
        }
        for server in &servers {
            prop_assert!(with(&rules, &without(&servers, *server))?, "server {}", server);
        }
    }
}

proptest! {
    // Finding that there is no other placement means trying all of them.
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Repeated searches find the placements in the order of their costs, until no other is left.
    #[test]
    fn other_placements_are_the_next_best(problem in problems()) {
        let costs = costs(&problem);
        let mut known: Vec<Vec<usize>> = Vec::new();
        for expected in costs.iter().map(Some).chain([None]).take(4) {
            let outcome = found_soon(|mut budget| solve_other(&problem, &known, &mut budget))?;
            let Some(expected) = expected else {
                prop_assert_eq!(outcome, Outcome::Impossible);
                continue;
            };
            let Outcome::Placed(found) = outcome else { panic!("{outcome:?}: {expected:?}") };
            let places = hosts_of(&found);
            prop_assert_eq!(broken(&problem, &places), None);
            prop_assert!(is_drawn(&problem, &found));
            prop_assert_eq!((&found.cost, &found.bound), (expected, expected));
            known.push(places);
        }
        let mut never = || false;
        if let Some(model) = Model::of(&problem, &mut Budget::new(&mut never)) {
            let different: HashSet<_> = known.iter().map(|it| by_kind(&model, it)).collect();
            prop_assert_eq!(different.len(), known.len());
        }
    }
}
