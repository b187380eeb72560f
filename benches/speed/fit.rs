//! Counting how many more of a request fit: time for the whole count.

use berth::search::fit::{CountParameters, Excluded, GroupBy, fit};
use criterion::{BenchmarkId, Criterion, Throughput};

use crate::clouds::{contended, flat, nested};

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fit");
    let by = GroupBy::Aggregate;
    for (name, hosts, cloud, by) in [
        ("flat", 10_000, flat(10_000), None),
        ("flat", 100_000, flat(100_000), None),
        ("flat by aggregate", 100_000, flat(100_000), Some(&by)),
        ("nested", 1000, nested(1000), None),
        ("nested", 10_000, nested(10_000), None),
        ("contended", 10_000, contended(10_000), None),
    ] {
        let excluded = Excluded::default();
        let parameters =
            CountParameters { request: &cloud.request, excluded: &excluded, names_max: 10, by };
        group.throughput(Throughput::Elements(hosts));
        group.bench_function(BenchmarkId::new(name, hosts), |bencher| {
            bencher.iter(|| {
                let found = fit(&cloud.world, &parameters, |_| false).unwrap();
                assert!(found.total.at_least > 0);
                found
            });
        });
    }
}
