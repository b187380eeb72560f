//! Finding candidates: time for each of them.

use std::sync::Arc;

use berth::search::{Next, Order, Ranking, Request, find};
use berth::world::{Changes, World};
use criterion::{Criterion, Throughput};

use crate::MILLION;
use crate::clouds::{Cloud, contended, flat, nested, wide};

/// The usual limit of clients.
const LIMIT: usize = 1000;

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("search");
    let clouds = [
        ("flat of 1k", flat(1000)),
        ("flat of 10k", flat(10_000)),
        ("nested of 1k", nested(1000)),
        ("contended of 1k", contended(1000)),
        ("wide", wide()),
    ];
    for (name, cloud) in clouds {
        let candidates = drain(&cloud.world, &cloud.request);
        group.throughput(Throughput::Elements(candidates));
        group.bench_function(name, |bencher| {
            bencher.iter(|| drain(&cloud.world, &cloud.request));
        });
    }
    group.throughput(Throughput::Elements(LIMIT as u64));
    let cloud = in_use(flat(100_000));
    for (name, order) in [
        ("flat of 100k, limit 1000", Order::Stored),
        ("flat of 100k, limit 1000, random", Order::Random(1)),
        ("flat of 100k, limit 1000, spread", Order::Ranked(Ranking::Spread)),
        ("flat of 100k, limit 1000, weights", Order::Ranked(weights())),
    ] {
        let request = Request { order, ..cloud.limited(LIMIT) };
        group.bench_function(name, |bencher| bencher.iter(|| drain(&cloud.world, &request)));
    }
    group.bench_function("flat of 1M, limit 1000", |bencher| {
        let request = MILLION.limited(LIMIT);
        bencher.iter(|| drain(&MILLION.world, &request));
    });
}

/// The same cloud, with each host in use to another share.
fn in_use(cloud: Cloud) -> Cloud {
    let providers = cloud.world.providers().map(|provider| {
        let mut row = provider.row();
        for (nth, inventory) in (1..).zip(&mut row.inventories) {
            // Numbers that repeat late.
            inventory.used = row.id.0 * 7919 * nth % (inventory.terms.capacity() * 3 / 4);
        }
        (row.id, Some(row))
    });
    let changes = Changes { providers: providers.collect(), ..Changes::default() };
    Cloud { world: Arc::new(cloud.world.apply(changes)), ..cloud }
}

/// Weights as an operator may choose them.
fn weights() -> Ranking {
    let weights = ["VCPU=1", "MEMORY_MB=2", "DISK_GB=0.5", "trait:CUSTOM_FOO=-5"];
    Ranking::Weights(weights.iter().map(|it| it.parse().unwrap()).collect())
}

/// Finds all candidates. Returns their number.
fn drain(world: &Arc<World>, request: &Request) -> u64 {
    let mut search = find(Arc::clone(world), request).unwrap();
    let mut found = 0;
    loop {
        match search.next_candidate() {
            Next::Found(_) => found += 1,
            Next::Paused => {}
            Next::Exhausted => return found,
        }
    }
}
