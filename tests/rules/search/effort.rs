//! Bounds, order and chance; and that no request makes the search hang.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use berth::model::TraitId;
use berth::search::{Group, Next, Order, Policy, Request, Search, Strategy, find};
use berth::world::{Name, World};

use crate::search::cloud::{Cloud, request};

/// Makes one host with `count` devices of `each` units.
fn devices(count: usize, each: i32) -> Cloud {
    let mut lines = "cn; VCPU:64\n".to_owned();
    for device in 0..count {
        writeln!(lines, "d{device} < cn; CUSTOM_VF:{each}").unwrap();
    }
    Cloud::new(&lines)
}

/// Groups of these amounts of `CUSTOM_VF`.
fn groups(amounts: &[i64]) -> Request {
    let group = |(nth, amount): (usize, &i64)| Group {
        suffix: format!("_{nth}"),
        resources: vec![("CUSTOM_VF".to_owned(), *amount)],
        ..Group::default()
    };
    let groups = amounts.iter().enumerate().map(group).collect();
    Request { groups, nested: true, ..Request::default() }
}

/// Returns the numbers of candidates found and pauses made, with at most `pauses_max` pauses.
fn run(world: &Arc<World>, request: &Request, pauses_max: usize) -> (usize, usize) {
    let mut search = find(Arc::clone(world), request).unwrap();
    let (mut found, mut pauses) = (0, 0);
    while pauses < pauses_max {
        match search.next_candidate() {
            Next::Found(_) => found += 1,
            Next::Paused => pauses += 1,
            Next::Exhausted => break,
        }
    }
    (found, pauses)
}

/// The names of the providers used first.
fn first(world: &Arc<World>, request: &Request, count: usize) -> Vec<String> {
    let mut search = find(Arc::clone(world), request).unwrap();
    let mut names = Vec::new();
    while names.len() < count {
        match search.next_candidate() {
            Next::Found(candidate) => {
                names.push(candidate.allocations().next().unwrap().0.name().to_owned());
            }
            Next::Paused => {}
            Next::Exhausted => break,
        }
    }
    names
}

#[test]
fn a_search_may_be_handed_to_another_thread() {
    fn portable<T: Send + 'static>() {}
    portable::<Search>();
}

#[test]
fn a_wide_tree_gives_its_first_candidates_at_once() {
    let all = groups(&[1; 8]);
    let world = devices(8, 1).world();
    assert_eq!(run(&world, &Request { limit: Some(1000), ..all.clone() }, 1), (1000, 0));
    assert_eq!(run(&world, &all, 100).0, 40_320);
    let world = devices(64, 1).world();
    let many = Request { limit: Some(1000), ..groups(&[1; 64]) };
    for policy in [Policy::None, Policy::Isolate] {
        let (found, pauses) = run(&world, &Request { policy, ..many.clone() }, 10);
        assert_eq!(found, 1000);
        assert!(pauses < 10);
    }
}

#[test]
fn one_device_too_few_is_seen_at_once() {
    let world = devices(63, 1).world();
    assert_eq!(run(&world, &groups(&[1; 64]), 1), (0, 0));
    let isolate = Request { policy: Policy::Isolate, ..groups(&[1; 64]) };
    assert_eq!(run(&devices(63, 64).world(), &isolate, 1), (0, 0));
}

#[test]
fn too_few_devices_of_one_kind_are_seen_at_once() {
    // There are enough devices in total, and enough of each kind.
    let mut lines = "cn; VCPU:64\n".to_owned();
    for device in 0..40 {
        let kind = if device < 19 { "HW_X" } else { "HW_Y" };
        writeln!(lines, "d{device} < cn; CUSTOM_VF:1; {kind}").unwrap();
    }
    let mut request = groups(&[1; 30]);
    for group in &mut request.groups[..20] {
        group.required = vec![vec!["HW_X".to_owned()]];
    }
    assert_eq!(run(&Cloud::new(&lines).world(), &request, 1), (0, 0));
}

/// Devices of odd amounts, and even amounts that leave 8 units: there is no way to supply them, and very many to
/// try, of which no two are alike.
pub(crate) fn puzzle_amounts() -> (Vec<i64>, Vec<i64>) {
    let mut wanted: Vec<i64> = (0..30).map(|nth| 40 + 2 * nth).collect();
    wanted[7] += 22;
    ((0..10).map(|nth| 201 + 2 * nth).collect(), wanted)
}

/// One host with these devices, a further line, and a request for these amounts.
fn puzzle(further: &str) -> (Arc<World>, Request) {
    let (devices, wanted) = puzzle_amounts();
    let mut lines = "cn; VCPU:64\n".to_owned();
    for (nth, amount) in devices.iter().enumerate() {
        writeln!(lines, "d{nth} < cn; CUSTOM_VF:{amount}").unwrap();
    }
    (Cloud::new(&(lines + further)).world(), groups(&wanted))
}

#[test]
fn a_search_without_an_end_pauses() {
    let (world, puzzle) = puzzle("");
    assert_eq!(run(&world, &puzzle, 3), (0, 3));
}

#[test]
fn a_tree_without_an_end_does_not_keep_others_waiting() {
    let (world, puzzle) = puzzle("other; CUSTOM_VF:3000");
    for strategy in [Strategy::DepthFirst, Strategy::BreadthFirst] {
        for order in [Order::Stored, Order::Random(1)] {
            let order = order.clone();
            let request = Request { strategy, order, limit: Some(10), ..puzzle.clone() };
            assert_eq!(first(&world, &request, 1), ["other"]);
        }
    }
}

fn two_trees() -> Arc<World> {
    Cloud::new(
        "a\n a1 < a; VCPU:8\n a2 < a; VCPU:8\n a3 < a; VCPU:8
         b\n b1 < b; VCPU:8\n b2 < b; VCPU:8",
    )
    .world()
}

#[test]
fn depth_first_finishes_a_tree_before_the_next() {
    let request = request("resources=VCPU:1");
    assert_eq!(first(&two_trees(), &request, 9), ["a1", "a2", "a3", "b1", "b2"]);
}

#[test]
fn breadth_first_takes_turns() {
    let request = Request {
        strategy: Strategy::BreadthFirst,
        max_candidates: Some(4),
        ..request("resources=VCPU:1")
    };
    assert_eq!(first(&two_trees(), &request, 9), ["a1", "b1", "a2", "b2"]);
}

#[test]
fn the_smaller_bound_counts() {
    for (limit, max_candidates, expected) in [
        (None, None, 5),
        (Some(2), None, 2),
        (None, Some(3), 3),
        (Some(4), Some(3), 3),
        (Some(9), None, 5),
    ] {
        let request = Request { limit, max_candidates, ..request("resources=VCPU:1") };
        assert_eq!(run(&two_trees(), &request, 1).0, expected);
    }
}

#[test]
fn candidates_excluded_by_nesting_do_not_count_towards_the_limit() {
    let world = Cloud::new("a; MEMORY_MB:8\n a1 < a; VCPU:8\n b; VCPU:8 MEMORY_MB:8").world();
    let request =
        Request { max_candidates: Some(1), ..request("old&resources=VCPU:1,MEMORY_MB:1") };
    assert_eq!(first(&world, &request, 9), ["b"]);
}

#[test]
fn with_a_seed_no_host_is_preferred() {
    let mut lines = String::new();
    for host in 0..6 {
        writeln!(lines, "cn{host}; VCPU:8").unwrap();
    }
    // One tree with several candidates, one shared pool with many anchors.
    lines.push_str("t\n t1 < t; VCPU:8; ; A\n t2 < t; VCPU:8; ; A\n t3 < t; VCPU:8; ; A\n");
    lines.push_str("pool; VCPU:8; MISC_SHARES_VIA_AGGREGATE; A\n");
    let world = Cloud::new(&lines).world();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..4000 {
        let request =
            Request { limit: Some(1), order: Order::Random(seed), ..request("resources=VCPU:1") };
        *counts.entry(first(&world, &request, 1).remove(0)).or_default() += 1;
    }
    assert_eq!(counts.len(), 10);
    for (name, count) in counts {
        // Eight places are drawn from; the three options of the tree share its chances.
        let expected = if name.starts_with('t') { 4000 / 24 } else { 4000 / 8 };
        assert!(count.abs_diff(expected) < expected / 3, "{name}: {count}");
    }
}

#[test]
fn with_a_seed_and_no_bound_everything_comes_in_another_order() {
    let world = two_trees();
    let with = |seed| Request { order: Order::Random(seed), ..request("resources=VCPU:1") };
    let orders: BTreeSet<Vec<String>> = (0..50).map(|seed| first(&world, &with(seed), 9)).collect();
    assert!(orders.len() > 20);
    let all: BTreeSet<BTreeSet<String>> =
        orders.into_iter().map(|order| order.into_iter().collect()).collect();
    assert_eq!(all.len(), 1);
    assert_eq!(first(&world, &with(7), 9), first(&world, &with(7), 9));
}

#[test]
fn any_number_of_required_traits_is_met_together() {
    let mut catalogue = Cloud::catalogue();
    let names: Vec<String> = (0..150).map(|nth| format!("CUSTOM_{nth}")).collect();
    for (nth, name) in names.iter().enumerate() {
        let name = Name { name: name.clone(), updated_at: 0 };
        catalogue.traits.insert(TraitId(100 + nth as i32), name);
    }
    let mut rows = Cloud::new("a; VCPU:8\n a1 < a; MEMORY_MB:8").rows;
    rows[0].traits = (100..175).map(TraitId).collect();
    rows[1].traits = (175..250).map(TraitId).collect();
    let ask = |rows: &[berth::model::provider::ProviderRow]| {
        let world = Arc::new(World::build(catalogue.clone(), rows.to_vec()));
        let mut request = request("resources=VCPU:1,MEMORY_MB:1");
        request.groups[0].required = names.iter().map(|name| vec![name.clone()]).collect();
        run(&world, &request, 1).0
    };
    assert_eq!(ask(&rows), 1);
    for missing in [0, 74] {
        let mut rows = rows.clone();
        rows[0].traits.remove(missing);
        assert_eq!(ask(&rows), 0);
    }
}
