//! Plans of whole stacks: 50 servers on 2,000 hosts in 50 racks, some hosts in use; their quality when the time
//! is up, and the time for explaining that there is none.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth::solver::{
    AllowedHosts, Choice, Draws, Host, Level, Outcome, PlacementProblem, Pool, Rule, Server,
    Supply, Way, Ways, explain, solve,
};
use criterion::Criterion;

/// The default time limit of a plan.
const BUDGET: Duration = Duration::from_secs(2);

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    for (name, problem) in [
        ("first of 2,000 hosts", stack(2_000, Room::Mixed)),
        ("first of 10,000 hosts", stack(10_000, Room::Mixed)),
        ("first of 2,000 hosts with two nodes", nodes(stack(2_000, Room::Mixed))),
        ("first of 2,000 hosts with room for few", stack(2_000, Room::Little)),
        // 41 hosts are needed.
        ("no way on 40", stack(40, Room::Mixed)),
    ] {
        report(name, &problem);
        let looks = looks_for_first(&problem);
        group.bench_function(name, |bencher| bencher.iter(|| limited(&problem, looks)));
    }
    report("few servers on like hosts", &few());
    let mut tight = stack(2_000, Room::Mixed);
    tight.rules.push(Rule::Apart(Level::Rack, (0..50).map(|server| vec![server]).collect()));
    tight.rules.push(Rule::Together(Level::Cluster, (0..50).collect()));
    tight.hosts.iter_mut().filter(|host| host.rack > Some(47)).for_each(|host| host.rack = None);
    group.bench_function("why there is no way on 2,000 hosts", |bencher| {
        bencher.iter(|| explain(&tight, || false));
    });
    group.finish();
}

/// Prints the quality of the plan that the solver finds within the limit.
fn report(name: &str, problem: &PlacementProblem) {
    let began = Instant::now();
    let outcome = solve(problem, || began.elapsed() > BUDGET);
    let took = began.elapsed();
    let words = match &outcome {
        Outcome::Placed(it) => format!("{:?}, at the least {:?}", it.cost, it.bound),
        Outcome::Impossible => "impossible".to_owned(),
        Outcome::OutOfTime => "no answer".to_owned(),
    };
    drop(writeln!(std::io::stdout(), "{name}: after {took:.1?}: {words}"));
}

/// Returns the number of readings of the clock until there is a plan, or a proof that there is none.
fn looks_for_first(problem: &PlacementProblem) -> u64 {
    let is_known = |looks: &u64| limited(problem, *looks) != Outcome::OutOfTime;
    let most = (0..30).map(|power| 1 << power).find(is_known).unwrap_or(u64::MAX);
    (most / 2..=most).find(is_known).unwrap_or(most)
}

fn limited(problem: &PlacementProblem, looks_max: u64) -> Outcome {
    let mut looks = 0;
    solve(problem, || {
        looks += 1;
        looks > looks_max
    })
}

/// The free capacity of the hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// From hosts that are full to those that are empty.
    Mixed,
    /// On most hosts for the smallest servers only, and more on a few that are not in use.
    Little,
}

/// Fifty servers: forty apart from each other and from five that are together, and five more that
/// are together.
fn stack(hosts: usize, room: Room) -> PlacementProblem {
    let host = |nth: usize| {
        let in_use = !nth.is_multiple_of(3);
        let taken = match room {
            Room::Little if in_use => 30,
            Room::Little | Room::Mixed => u64::try_from(nth * 7 % 24).unwrap_or(0),
        };
        Host {
            free: vec![32 - taken, 131_072 - taken * 4096, 2_000 - taken * 40],
            rack: u32::try_from(nth / 40).ok(),
            cluster: Some(0),
            in_use,
            ..Host::default()
        }
    };
    let mut parts: Vec<Vec<usize>> = (0..40).map(|server| vec![server]).collect();
    parts.push((40..45).collect());
    let rules = vec![
        Rule::Together(Level::Host, (40..45).collect()),
        Rule::Together(Level::Host, (45..50).collect()),
        Rule::Apart(Level::Host, parts),
    ];
    problem((0..hosts).map(host).collect(), 50, rules)
}

/// Twelve servers in three tiers, on 200 hosts of two sorts in ten racks.
fn few() -> PlacementProblem {
    let host = |nth: usize| Host {
        free: if nth.is_multiple_of(2) { vec![8, 32_768, 500] } else { vec![12, 49_152, 500] },
        rack: u32::try_from(nth / 20).ok(),
        cluster: Some(0),
        in_use: nth % 20 < 6,
        ..Host::default()
    };
    let tier = |from: usize| (from..from + 4).map(|server| vec![server]).collect::<Vec<_>>();
    let rules = vec![
        Rule::Apart(Level::Host, tier(0)),
        Rule::Apart(Level::Rack, tier(4)),
        Rule::Together(Level::Rack, (8..12).collect()),
        Rule::Alone(Level::Host, vec![8, 9]),
    ];
    problem((0..200).map(host).collect(), 12, rules)
}

/// Servers of three sizes by turns, on hosts with a pool of each class.
fn problem(hosts: Vec<Host>, servers: usize, rules: Vec<Rule>) -> PlacementProblem {
    let sizes: Vec<Arc<Ways>> = (1..4).map(|size| Arc::new(ways(size, hosts.len()))).collect();
    let allowed_hosts: AllowedHosts = vec![true; hosts.len()].into();
    let server = |nth: usize| Server {
        ways: sizes.get(nth % sizes.len()).cloned().unwrap_or_default(),
        allowed_hosts: allowed_hosts.clone(),
        ..Server::default()
    };
    let pool = |(class, free): (usize, &u64)| Pool { class, free: *free };
    PlacementProblem {
        pools: hosts.iter().flat_map(|host| host.free.iter().enumerate().map(pool)).collect(),
        servers: (0..servers).map(server).collect(),
        hosts,
        rules,
        ..PlacementProblem::default()
    }
}

/// The one way of a size on each host, which has a pool of each of three classes.
fn ways(size: u64, hosts: usize) -> Ways {
    let needs = [size, size * 2048, size * 20];
    let draws = |host: usize| needs.iter().enumerate().map(move |(nth, it)| (host * 3 + nth, *it));
    (0..hosts).map(|host| (host, Supply::One(draws(host).collect()))).collect()
}

/// The same with each host's first two classes on two nodes, and the third of a storage that its rack
/// shares.
fn nodes(mut problem: PlacementProblem) -> PlacementProblem {
    let (hosts, servers) = (problem.hosts.len(), problem.servers.len());
    let racks = hosts.div_ceil(40);
    let half = |host: &Host, class: usize| host.free.get(class).map_or(0, |free| free / 2);
    let node = |host: &Host| [0, 1, 0, 1].map(|class| Pool { class, free: half(host, class) });
    problem.pools = problem.hosts.iter().flat_map(node).collect();
    problem.pools.extend((0..racks).map(|_| Pool { class: 2, free: 3_000 }));
    let way = |draws: Draws| Way { draws, ..Way::default() };
    let ways = |size: u64| -> Arc<Ways> {
        let on = |host: usize| {
            let storage = Draws::from([(hosts * 4 + host / 40, size * 20)]);
            let cpu = [0, 2].map(|node| host * 4 + node);
            let of_node = cpu.map(|cpu| Draws::from([(cpu, size), (cpu + 1, size * 2048)]));
            let parts = [of_node.to_vec(), vec![storage]];
            let parts = parts.into_iter().map(|part| part.into_iter().map(way)).collect();
            Supply::Choice(Box::new(Choice { parts, ..Choice::default() }))
        };
        Arc::new((0..hosts).map(|host| (host, on(host))).collect())
    };
    let sizes = [1, 2, 3].map(ways);
    for (nth, server) in (0..servers).zip(&mut problem.servers) {
        server.ways = sizes.get(nth % 3).cloned().unwrap_or_default();
    }
    problem
}
