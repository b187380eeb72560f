//! Working claims on some providers into a world: time for each provider changed. The size of the
//! world must hardly matter.

use std::sync::LazyLock;

use berth::model::ProviderId;
use berth::world::{Changes, World};
use criterion::{BatchSize, Criterion, Throughput};

use crate::MILLION;
use crate::clouds::{Cloud, flat};

static TEN_THOUSAND: LazyLock<Cloud> = LazyLock::new(|| flat(10_000));
static HUNDRED_THOUSAND: LazyLock<Cloud> = LazyLock::new(|| flat(100_000));

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("changes");
    let clouds = [("10k", &TEN_THOUSAND), ("100k", &HUNDRED_THOUSAND), ("1M", &MILLION)];
    for (name, cloud) in clouds {
        for changed in [1, 10, 100] {
            group.throughput(Throughput::Elements(changed));
            group.bench_function(format!("{changed} of {name}"), |bencher| {
                let world = &cloud.world;
                let changes = claimed(world, changed);
                // Each world is dropped when the next one is made, so dropping one counts.
                let apply = |changes| drop(world.apply(changes));
                bencher.iter_batched(|| changes.clone(), apply, BatchSize::SmallInput);
            });
        }
    }
}

/// Returns the change of one more used unit of every inventory of some providers, spread over the world.
fn claimed(world: &World, changed: u64) -> Changes {
    let apart = world.len() as u64 / changed;
    let provider = |nth: u64| {
        let id = ProviderId(i64::try_from(1 + nth * apart).unwrap());
        let mut row = world.provider_by_id(id).unwrap().row();
        row.generation += 1;
        for inventory in &mut row.inventories {
            inventory.used += 1;
        }
        (id, Some(row))
    };
    Changes { providers: (0..changed).map(provider).collect(), ..Changes::default() }
}
