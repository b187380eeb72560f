//! The cost of a candidate, counted in steps and allocations rather than in time: a bounded number of steps,
//! however large the cloud and the response, and no allocation.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

#[path = "../../benches/speed/clouds.rs"]
mod clouds;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use berth::http::write_candidates;
use berth::model::provider::ProviderRow;
use berth::model::{ClassId, TraitId};
use berth::search::trees::trees;
use berth::search::{Next, Request, find};
use berth::world::{Catalogue, Changes, Name, World};
use clouds::{Cloud, contended, flat, nested, wide};

/// Maximum number of steps for each candidate; examining a tree takes 16, a choice one.
const STEPS_MAX: u64 = 64;
/// Maximum number of steps before the first one.
const START_MAX: u64 = 256;
/// A part of an answer is a room to write in, and the note that it may be shared.
const ALLOCATIONS_OF_A_PART: u64 = 2;
/// The set of providers to be summarised grows with the answer, doubling its room each time.
const GROWTH_MAX: u64 = 4;

/// With more than 20,000 candidates each.
static CLOUDS: LazyLock<[Cloud; 4]> =
    LazyLock::new(|| [flat(32_000), nested(7000), contended(5100), wide()]);

/// Candidates and steps of a whole search.
fn effort(world: &Arc<World>, request: &Request) -> (u64, u64) {
    let mut search = find(Arc::clone(world), request).unwrap();
    let mut found = 0;
    loop {
        match search.next_candidate() {
            Next::Found(_) => found += 1,
            Next::Paused => {}
            Next::Exhausted => return (found, search.steps()),
        }
    }
}

/// Allocations and parts of a whole answer.
fn allocations(cloud: &Cloud, limit: usize) -> (u64, u64) {
    let request = cloud.limited(limit);
    let mut parts = 0;
    let counted = allocation_counter::measure(|| {
        write_candidates(&cloud.world, &request, |_| parts += 1).unwrap();
    });
    (counted.count_total, parts)
}

#[test]
fn a_candidate_takes_a_bounded_number_of_steps() {
    for cloud in &*CLOUDS {
        for limit in [1, 10, 100, 1000, 10_000, 20_000] {
            let (found, steps) = effort(&cloud.world, &cloud.limited(limit));
            assert_eq!(found, limit as u64);
            let most = START_MAX + STEPS_MAX * found;
            assert!(steps <= most, "{}: {steps} steps for {limit}", cloud.name);
        }
    }
}

#[test]
fn hosts_that_are_full_are_passed_over_by_the_block() {
    let hosts = 32_000;
    let cloud = flat(hosts);
    let full = cloud.world.providers().filter(|host| host.id().0 % 100 != 0).map(|host| {
        let mut row = host.row();
        for inventory in &mut row.inventories {
            inventory.used = inventory.terms.total.into();
        }
        (row.id, Some(row))
    });
    let changes = Changes { providers: full.collect(), ..Changes::default() };
    let world = Arc::new(cloud.world.apply(changes));
    let (found, steps) = effort(&world, &cloud.request);
    assert!((100..=320).contains(&found), "{found}");
    let most = START_MAX + STEPS_MAX * found + hosts.unsigned_abs() / 2;
    assert!(steps <= most, "{steps} steps for {found}");
}

#[test]
fn the_options_of_a_tree_are_not_combined() {
    for cloud in [&CLOUDS[1], &CLOUDS[3]] {
        let mut walk = trees(Arc::clone(&cloud.world), &cloud.request).unwrap();
        let mut roots = BTreeSet::new();
        let mut options = 0;
        loop {
            match walk.next_tree() {
                Next::Found(tree) => {
                    let root = tree.root().unwrap().uuid();
                    assert!(roots.insert(root), "{}: a tree comes twice", cloud.name);
                    options += tree.root().unwrap().tree().count();
                }
                Next::Paused => {}
                Next::Exhausted => break,
            }
        }
        assert_eq!(roots.len(), cloud.world.trees().count(), "{}", cloud.name);
        let most = START_MAX + STEPS_MAX * options as u64;
        assert!(walk.steps() <= most, "{}: {} steps", cloud.name, walk.steps());
    }
}

#[test]
fn a_candidate_takes_nothing_of_the_heap() {
    for cloud in &*CLOUDS {
        // Work done once for all responses is not counted.
        allocations(cloud, 1);
        let (few, few_parts) = allocations(cloud, 10_000);
        let (many, many_parts) = allocations(cloud, 20_000);
        let for_parts = ALLOCATIONS_OF_A_PART * (many_parts - few_parts);
        assert!(many_parts > few_parts);
        assert!(
            many <= few + for_parts + GROWTH_MAX,
            "{}: {few} for 10,000 in {few_parts} parts, {many} for 20,000 in {many_parts}",
            cloud.name
        );
    }
}

/// Returns the host with a unique class and a unique trait, and without.
fn with_and_without(world: &World, nth: i32) -> [Changes; 2] {
    let row = world.providers().next().unwrap().row();
    let mut with = row.clone();
    let mut catalogue = world.catalogue().clone();
    let name = |kind: &str| Name { name: format!("CUSTOM_{kind}_{nth}"), updated_at: 0 };
    let (class, key) = (ClassId(10_000 + nth), TraitId(10_000 + nth));
    catalogue.classes.insert(class, name("CLASS"));
    catalogue.traits.insert(key, name("TRAIT"));
    let mut inventory = *with.inventories.first().unwrap();
    inventory.class = class;
    with.inventories.push(inventory);
    with.traits.push(key);
    let change = |catalogue: Catalogue, row: ProviderRow| Changes {
        catalogue: Some(catalogue),
        providers: vec![(row.id, Some(row))],
        ..Changes::default()
    };
    [change(catalogue, with), change(world.catalogue().clone(), row)]
}

/// Classes and traits that come and go leave nothing behind.
#[test]
fn a_world_forgets_classes_and_traits_that_are_gone() {
    let mut world = flat(300).world.apply(Changes::default());
    let mut come_and_go = |count: std::ops::Range<i32>| {
        allocation_counter::measure(|| {
            for nth in count {
                for changes in with_and_without(&world, nth) {
                    world = world.apply(changes);
                }
            }
        })
        .bytes_current
    };
    come_and_go(0..100);
    let growth = come_and_go(100..10_000);
    assert!(growth < 100_000, "{growth} bytes more");
    world.check().unwrap();
}
