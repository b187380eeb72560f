//! Finding candidates: time for each of them.

use std::sync::Arc;

use berth::search::{Next, Request, find};
use berth::world::World;
use criterion::{Criterion, Throughput};

use crate::MILLION;
use crate::clouds::{contended, flat, nested, wide};

/// As many as clients ask for.
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
    group.bench_function("flat of 1M, limit 1000", |bencher| {
        let request = MILLION.limited(LIMIT);
        bencher.iter(|| drain(&MILLION.world, &request));
    });
}

/// Finds all candidates; how many there are.
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
