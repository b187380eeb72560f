//! Judging a full batch of claims: time for each claim.

use std::collections::{BTreeMap, HashMap};

use berth::model::claim::{
    Claim, ConsumerState, InventoryUsage, LockedProvider, LockedState, Owner, Request, judge,
};
use berth::model::{ClassId, Expected, Inventory, ProviderId};
use criterion::{BatchSize, Criterion, Throughput};
use uuid::Uuid;

/// The claims of a full batch.
const CLAIMS: u32 = 64;
const WANTS: [(&str, i64); 3] = [("VCPU", 1), ("MEMORY_MB", 256), ("DISK_GB", 10)];

pub(crate) fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("judging");
    group.throughput(Throughput::Elements(CLAIMS.into()));
    for (name, providers) in [("64 claims on 64 providers", CLAIMS), ("64 claims on one", 1)] {
        let requests: Vec<Request> = (0..CLAIMS).map(|nth| claim(nth, nth % providers)).collect();
        let state = state(providers);
        group.bench_function(name, |bencher| {
            let judge_all = |state: &mut LockedState| {
                for request in &requests {
                    judge(state, request).unwrap();
                }
            };
            bencher.iter_batched_ref(|| state.clone(), judge_all, BatchSize::SmallInput);
        });
    }
}

fn claim(consumer: u32, provider: u32) -> Request {
    let wants = WANTS.map(|(class, amount)| (provider_uuid(provider), class.to_owned(), amount));
    Request::Replace(vec![Claim {
        consumer: consumer_uuid(consumer),
        expected: Expected::NoConsumer,
        owner: Owner { project: 1, user: 1, consumer_type: Some(1) },
        wants: wants.into(),
    }])
}

/// Returns the state of the claims: new consumers, and providers with enough room.
fn state(providers: u32) -> LockedState {
    let terms = Inventory {
        total: 1_000_000,
        reserved: 0,
        min_unit: 1,
        max_unit: 1_000_000,
        step_size: 1,
        allocation_ratio: 1.0,
    };
    let id = |provider: u32| ProviderId(i64::from(provider));
    let stock = |provider| {
        let places = (0..).map(ClassId).take(WANTS.len()).map(move |class| (id(provider), class));
        places.map(move |place| (place, InventoryUsage { terms, used_before: 0, used: 0 }))
    };
    let shelf =
        |provider| (provider_uuid(provider), LockedProvider { id: id(provider), generation: 1 });
    LockedState {
        classes: WANTS
            .iter()
            .map(|(class, _)| (*class).to_owned())
            .zip((0..).map(ClassId))
            .collect(),
        providers: (0..providers).map(shelf).collect::<HashMap<_, _>>(),
        inventories: (0..providers).flat_map(stock).collect::<BTreeMap<_, _>>(),
        consumers: (0..CLAIMS).map(|nth| (consumer_uuid(nth), ConsumerState::default())).collect(),
        ..LockedState::default()
    }
}

fn provider_uuid(provider: u32) -> Uuid {
    Uuid::from_u64_pair(0xA0, provider.into())
}

fn consumer_uuid(consumer: u32) -> Uuid {
    Uuid::from_u64_pair(0xC0, consumer.into())
}
