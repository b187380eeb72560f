//! Plans of whole stacks: 50 servers on 2,000 hosts in 50 racks, some hosts in use.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth::plan::{Host, Level, Outcome, Pool, Problem, Rule, Server, Way, Ways, solve};
use criterion::Criterion;

/// How long a plan may take, as by default.
const BUDGET: Duration = Duration::from_secs(2);

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    // 41 hosts are needed: on 40 there is no way.
    for (name, problem) in [("first of 2,000 hosts", stack(2_000)), ("no way on 40", stack(40))] {
        report(name, &problem);
        group.bench_function(name, |bencher| bencher.iter(|| first(&problem)));
    }
    group.finish();
}

/// Says once how good the plan is that the budget buys.
fn report(name: &str, problem: &Problem) {
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

/// The first plan that is found, as when there is no time for more.
fn first(problem: &Problem) -> Outcome {
    let mut looks = 0;
    solve(problem, || {
        looks += 1;
        looks > 4
    })
}

/// Fifty servers: forty apart from each other and from five that are together, and five more that
/// are together.
fn stack(hosts: usize) -> Problem {
    let host = |nth: usize| {
        let taken = u64::try_from(nth * 7 % 24).unwrap_or(0);
        Host {
            free: vec![32 - taken, 131_072 - taken * 4096, 2_000 - taken * 40],
            rack: u32::try_from(nth / 40).ok(),
            cluster: Some(0),
            in_use: !nth.is_multiple_of(3),
        }
    };
    let hosts: Vec<Host> = (0..hosts).map(host).collect();
    let sizes: Vec<Arc<Ways>> = (1..4).map(|size| Arc::new(ways(size, hosts.len()))).collect();
    let server = |nth: usize| Server {
        ways: sizes.get(nth % sizes.len()).cloned().unwrap_or_default(),
        may_be_on: vec![true; hosts.len()],
        is_on: None,
    };
    let mut parts: Vec<Vec<usize>> = (0..40).map(|server| vec![server]).collect();
    parts.push((40..45).collect());
    let rules = vec![
        Rule::Together(Level::Host, (40..45).collect()),
        Rule::Together(Level::Host, (45..50).collect()),
        Rule::Apart(Level::Host, parts),
    ];
    let pool = |(class, free): (usize, &u64)| Pool { class, free: *free };
    Problem {
        pools: hosts.iter().flat_map(|host| host.free.iter().enumerate().map(pool)).collect(),
        servers: (0..50).map(server).collect(),
        hosts,
        rules,
        spread: false,
    }
}

/// The one way of a size on each host, which has a pool of each of three classes.
fn ways(size: u64, hosts: usize) -> Ways {
    let needs = [size, size * 2048, size * 20];
    let draws = |host: usize| needs.iter().enumerate().map(move |(nth, it)| (host * 3 + nth, *it));
    (0..hosts).map(|host| vec![Way(draws(host).collect())]).collect()
}
