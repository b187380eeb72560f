//! A complete response of `GET /allocation_candidates`, found and written, beside merely copying its
//! bytes: the same throughput would be perfect.

use std::sync::Arc;

use berth::http::write_candidates;
use berth::search::Request;
use berth::world::World;
use criterion::{Criterion, Throughput};

use crate::clouds::{contended, flat, nested, wide};

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rendering");
    for cloud in [flat(10_000), nested(1000), contended(1000), wide()] {
        let cases = [("limit 1000", cloud.limited(1000)), ("all", cloud.request.clone())];
        for (case, request) in cases {
            let body = body(&cloud.world, &request);
            group.throughput(Throughput::Bytes(body.len() as u64));
            group.bench_function(format!("{}, {case}: answer", cloud.name), |bencher| {
                bencher.iter(|| write_candidates(&cloud.world, &request, drop));
            });
            let mut copy = Vec::with_capacity(body.len());
            group.bench_function(format!("{}, {case}: copy", cloud.name), |bencher| {
                bencher.iter(|| {
                    copy.clear();
                    copy.extend_from_slice(std::hint::black_box(&body));
                    std::hint::black_box(&mut copy).len()
                });
            });
        }
    }
}

fn body(world: &Arc<World>, request: &Request) -> Vec<u8> {
    let mut body = Vec::new();
    write_candidates(world, request, |part| body.extend_from_slice(&part)).unwrap();
    body
}
