use std::sync::Arc;

use serde_json::{Value, json};
use uuid::{Uuid, uuid};

use super::{Shape, Stopped, WORK_AT_ONCE, Writing};
use crate::http::placement::microversion::{
    ALLOCATION_CANDIDATES, ALLOCATIONS_BY_PROVIDER, LATEST, Microversion, NESTED_CANDIDATES,
    REQUIRED_TRAITS, SUMMARIES_SHOW_ALL_CLASSES,
};
use crate::model::inventory::Inventory;
use crate::model::provider::{InventoryRow, ProviderRow};
use crate::model::{ClassId, ProviderId, TraitId};
use crate::search::{self, Group, Request};
use crate::world::{Catalogue, Name, World};

const ROOT: Uuid = uuid!("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901");
const CHILD: Uuid = uuid!("d0b1f2c3-0f6d-4c8f-8a57-0a4b5f2f9c11");

fn name(name: &str) -> Name {
    Name { name: name.to_owned(), updated_at: 0 }
}

fn inventory(class: i32, total: i32, used: i64) -> InventoryRow {
    let terms = Inventory {
        total,
        reserved: 0,
        min_unit: 1,
        max_unit: i32::MAX,
        step_size: 1,
        allocation_ratio: 1.5,
    };
    InventoryRow { class: ClassId(class), terms, used, updated_at: 0 }
}

fn provider(id: i64, uuid: Uuid, parent: Option<i64>) -> ProviderRow {
    ProviderRow {
        id: ProviderId(id),
        uuid,
        name: uuid.to_string(),
        generation: 0,
        parent: parent.map(ProviderId),
        root: ProviderId(parent.unwrap_or(id)),
        updated_at: 0,
        inventories: Vec::new(),
        traits: Vec::new(),
        aggregates: Vec::new(),
        spellings: Vec::new(),
    }
}

/// A root with memory, disk and a trait, and a child with CPUs.
fn world() -> Arc<World> {
    let catalogue = Catalogue {
        classes: [
            (ClassId(0), name("VCPU")),
            (ClassId(1), name("MEMORY_MB")),
            (ClassId(2), name("DISK_GB")),
        ]
        .into(),
        traits: [(TraitId(1), name("CUSTOM_A"))].into(),
    };
    let root = ProviderRow {
        inventories: vec![inventory(1, 100, 0), inventory(2, 10, 0)],
        traits: vec![TraitId(1)],
        ..provider(1, ROOT, None)
    };
    let child =
        ProviderRow { inventories: vec![inventory(0, 5, 2)], ..provider(2, CHILD, Some(1)) };
    Arc::new(World::build(catalogue, vec![root, child]))
}

fn request(microversion: Microversion, resources: &[(&str, i64)]) -> Request {
    let resources =
        resources.iter().map(|(class, amount)| ((*class).to_owned(), *amount)).collect();
    Request {
        groups: vec![Group { resources, ..Group::default() }],
        nested: microversion.has(NESTED_CANDIDATES),
        ..Request::default()
    }
}

fn writing(microversion: Microversion, request: &Request, world: Arc<World>) -> Writing {
    let shape = Shape::of(microversion, request, &world);
    Writing::new(search::find(world, request).unwrap(), shape, 0)
}

fn body_of(microversion: Microversion, resources: &[(&str, i64)]) -> Value {
    let mut writing = writing(microversion, &request(microversion, resources), world());
    assert_eq!(writing.write(usize::MAX), Stopped::Done);
    serde_json::from_slice(&writing.take(0)).unwrap()
}

#[test]
fn a_candidate_lists_providers_first_and_keys_them_from_1_12() {
    let (root, child) = (ROOT.to_string(), CHILD.to_string());
    let allocations = |microversion| {
        let mut body = body_of(microversion, &[("VCPU", 2)]);
        body["allocation_requests"].take()
    };
    assert_eq!(
        allocations(ALLOCATION_CANDIDATES),
        json!([{"allocations": [
            {"resource_provider": {"uuid": child}, "resources": {"VCPU": 2}},
        ]}])
    );
    assert_eq!(
        allocations(ALLOCATIONS_BY_PROVIDER),
        json!([{"allocations": {&child: {"resources": {"VCPU": 2}}}}])
    );
    let mut both = body_of(LATEST, &[("VCPU", 2), ("MEMORY_MB", 8)]);
    let mappings = both["allocation_requests"][0]["mappings"][""].take();
    assert_eq!(mappings.as_array().map(Vec::len), Some(2));
    assert_eq!(
        both["allocation_requests"][0]["allocations"],
        json!({root: {"resources": {"MEMORY_MB": 8}}, child: {"resources": {"VCPU": 2}}})
    );
}

#[test]
fn a_summary_shows_more_and_more() {
    let (root, child) = (ROOT.to_string(), CHILD.to_string());
    let summaries = |microversion| {
        let mut body = body_of(microversion, &[("VCPU", 2)]);
        body["provider_summaries"].take()
    };
    let cpus = json!({"VCPU": {"capacity": 7, "used": 2}});
    assert_eq!(summaries(ALLOCATION_CANDIDATES), json!({&child: {"resources": cpus}}));
    assert_eq!(summaries(REQUIRED_TRAITS), json!({&child: {"resources": cpus, "traits": []}}));
    assert_eq!(
        summaries(SUMMARIES_SHOW_ALL_CLASSES),
        json!({&child: {"resources": cpus, "traits": []}})
    );
    assert_eq!(
        summaries(LATEST),
        json!({
            &root: {
                "resources": {
                    "MEMORY_MB": {"capacity": 150, "used": 0},
                    "DISK_GB": {"capacity": 15, "used": 0},
                },
                "traits": ["CUSTOM_A"],
                "parent_provider_uuid": null,
                "root_provider_uuid": root,
            },
            &child: {
                "resources": cpus,
                "traits": [],
                "parent_provider_uuid": root,
                "root_provider_uuid": root,
            },
        })
    );
}

#[test]
fn to_1_26_only_requested_classes_are_shown() {
    let classes = |microversion| {
        let body = body_of(microversion, &[("MEMORY_MB", 8)]);
        let resources = &body["provider_summaries"][ROOT.to_string()]["resources"];
        resources.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(classes(REQUIRED_TRAITS), ["MEMORY_MB"]);
    assert_eq!(classes(SUMMARIES_SHOW_ALL_CLASSES), ["MEMORY_MB", "DISK_GB"]);
}

#[test]
fn an_empty_result_has_two_empty_members() {
    let nothing = json!({"allocation_requests": [], "provider_summaries": {}});
    assert_eq!(body_of(LATEST, &[("VCPU", 1000)]), nothing);
}

/// Many roots with free capacity, so that the response has several parts.
fn many(count: i64) -> Arc<World> {
    let catalogue = Catalogue { classes: [(ClassId(0), name("VCPU"))].into(), traits: [].into() };
    let root = |nth| ProviderRow {
        inventories: vec![inventory(0, 5, 2)],
        ..provider(nth, Uuid::from_u128(u128::from(nth.unsigned_abs())), None)
    };
    Arc::new(World::build(catalogue, (1..=count).map(root).collect()))
}

/// Takes a response in parts of at least `enough` bytes; returns it with the number of parts.
fn in_parts(mut writing: Writing, enough: usize) -> (String, usize) {
    let (mut text, mut parts) = (Vec::new(), 0);
    loop {
        let stopped = writing.write(enough);
        if stopped != Stopped::Paused {
            text.extend(writing.take(0));
            parts += 1;
        }
        if stopped == Stopped::Done {
            return (String::from_utf8(text).unwrap(), parts);
        }
    }
}

#[test]
fn a_large_answer_comes_in_parts_of_one_text() {
    let query = request(LATEST, &[("VCPU", 1)]);
    let world = many(2000);
    let (complete, once) = in_parts(writing(LATEST, &query, Arc::clone(&world)), usize::MAX);
    let (text, parts) = in_parts(writing(LATEST, &query, world), 10_000);
    assert!(once == 1 && parts > 10);
    assert_eq!(text, complete);
    let response: Value = serde_json::from_str(&complete).unwrap();
    assert_eq!(response["allocation_requests"].as_array().map(Vec::len), Some(2000));
    assert_eq!(response["provider_summaries"].as_object().map(serde_json::Map::len), Some(2000));
}

/// A tree's summaries may span two parts.
#[test]
fn parts_may_end_anywhere() {
    for microversion in [ALLOCATION_CANDIDATES, NESTED_CANDIDATES, LATEST] {
        let query = request(microversion, &[("VCPU", 1), ("MEMORY_MB", 1)]);
        let (complete, _) = in_parts(writing(microversion, &query, world()), usize::MAX);
        for enough in 1..complete.len() {
            let (text, _) = in_parts(writing(microversion, &query, world()), enough);
            assert_eq!(text, complete, "{enough}");
        }
    }
}

/// Returns the maximum work between two pauses of a complete response, and the number of pauses.
fn work_between_pauses(mut writing: Writing) -> (u64, usize) {
    let (mut longest, mut pauses) = (0, 0);
    loop {
        let before = writing.work();
        let stopped = writing.write(usize::MAX);
        longest = longest.max(writing.work() - before);
        match stopped {
            Stopped::Paused => pauses += 1,
            Stopped::Done => return (longest, pauses),
            Stopped::Full => panic!("there is room for all"),
        }
    }
}

/// Even if little of what is read is written.
#[test]
fn an_answer_is_not_written_for_long_without_a_pause() {
    // Beyond the limit, at most one search step or one summary is started.
    let most = WORK_AT_ONCE + 50_000 + 200;
    let trees = |count: i64, stocked: i32| {
        let classes = (0..=stocked).map(|nth| (ClassId(nth), name(&format!("CUSTOM_{nth}"))));
        let catalogue = Catalogue { classes: classes.collect(), traits: [].into() };
        let rows = (1..=count).map(|nth| {
            let uuid = Uuid::from_u128(u128::from(nth.unsigned_abs()));
            let is_root = nth % 2 == 1;
            let classes = if is_root { 0..1 } else { 1..stocked + 1 };
            let inventories = classes.map(|class| inventory(class, 5, 2)).collect();
            let parent = (!is_root).then_some(nth - 1);
            ProviderRow { inventories, ..provider(nth, uuid, parent) }
        });
        Arc::new(World::build(catalogue, rows.collect()))
    };
    let query = request(LATEST, &[("CUSTOM_0", 1), ("CUSTOM_1", 1)]);
    let (longest, pauses) = work_between_pauses(writing(LATEST, &query, trees(40_000, 1)));
    assert!(longest <= most && pauses > 0, "candidates: {longest} steps, {pauses} pauses");

    // One of a hundred classes is shown.
    let query = request(NESTED_CANDIDATES, &[("CUSTOM_0", 1), ("CUSTOM_1", 1)]);
    let found = writing(REQUIRED_TRAITS, &query, trees(8000, 100));
    let (longest, pauses) = work_between_pauses(found);
    assert!(longest <= most && pauses > 0, "summaries: {longest} steps, {pauses} pauses");
}
