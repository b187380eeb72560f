//! Explaining a query for which nothing fits: time for the whole explanation.

use berth::search::Request;
use berth::search::explain::explain;
use criterion::{BenchmarkId, Criterion, Throughput};

use crate::clouds::{Cloud, flat, nested};

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("explain");
    for (name, hosts, cloud) in [
        ("flat", 10_000, flat(10_000)),
        ("flat", 100_000, flat(100_000)),
        ("nested", 1000, nested(1000)),
        ("nested", 10_000, nested(10_000)),
    ] {
        let request = too_large(&cloud);
        group.throughput(Throughput::Elements(hosts));
        group.bench_function(BenchmarkId::new(name, hosts), |bencher| {
            bencher.iter(|| {
                let found = explain(&cloud.world, &request, 10, |_| false).unwrap();
                assert!(found.fitting == 0 && found.conflict.is_some());
                found
            });
        });
    }
}

/// The request of a cloud with more of its last class than any provider has.
fn too_large(cloud: &Cloud) -> Request {
    let mut request = cloud.request.clone();
    let amounts = request.groups.last_mut().and_then(|group| group.resources.last_mut());
    *amounts.map(|(_, amount)| amount).unwrap() = 1_000_000;
    request
}
